"""What the log holds: everything that decides a model, one kind of entry each, as MessagePack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from perturank.service.log.spec import Spec
from perturank.wire.specification import Mode

Effect = Literal["counted", "early", "late"]


class Changed(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A model was made or changed; where `generation` is 0, what it learned begins here, anew."""

    generation: int  # the position at which learning began; 0: this one
    spec: Spec


class Deleted(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A model is gone, with its snapshots."""


class Impression(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A list that was shown: of its documents what `learn` needs, and no more."""

    generation: int
    version: int
    mode: Mode
    ids: list[str]
    log_propensity: float | None
    packed: bytes  # features, prior and memo: see packing.py
    source: str | None = None
    ours: list[str] | None = None  # what we would have shown, where the caller showed its own order
    agreed: bytes | None = None  # log-probabilities of agreeing with the best estimate so far: see telemetry/cost.py


class Feedback(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Clicks on an impression: part of them, or the last."""

    clicks: list[str]
    final: bool
    effect: Effect


class Closed(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The feedback window closed over all impressions of the model up to this position."""

    through: int


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The learner learned from the impressions completed up to this position, but for those skipped.

    Many can be completed by one record, so that the position alone does not say where a batch ends.
    """

    through: int
    n: int
    skipped: list[bytes]  # by the cap on one source's influence
    is_counted: bool = False  # the first n and those skipped, no more; in logs of earlier versions: all up to there


class Snapshot(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """A version was published: what the batches up to this entry have made of the model."""

    generation: int
    version: int
    learned: int  # impressions so far
    digest: bytes  # of the arrays that serving needs
    sum: bytes  # of the stored bytes, which serving reads
    epoch: int  # of the learner that published it


class Pinned(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A version that is served whatever is learned; none: the newest again."""

    version: int | None


class RolledBack(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Learning goes on from this version; what was learned after it is dropped."""

    version: int


class Imported(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Learning goes on from a ranker that was brought from outside, stored as this blob."""

    blob: str


class Compacted(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The model's whole state was stored as its base: a replay begins there, and what came before may go."""

    at: int  # the base knows every record of the model up to here
    through: int  # impressions, feedback and batches up to here are taken out of the log; never more than `at`
    version: int  # the first that can be rebuilt
    learned: int
    digest: bytes  # of all its arrays; empty: the model had been deleted, and there is no base


class Erased(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Everything of one source up to here is to be taken out of the log."""

    source: bytes  # its seal: the log's secret tells that it was this one, and nothing tells who it was


Entry = (
    Changed
    | Deleted
    | Impression
    | Feedback
    | Closed
    | Batch
    | Snapshot
    | Pinned
    | RolledBack
    | Imported
    | Compacted
    | Erased
)

KINDS: dict[type, int] = {kind: number for number, kind in enumerate(get_args(Entry), start=1)}  # as tagged above
FREQUENT = (KINDS[Impression], KINDS[Feedback])
REGULAR = (*FREQUENT, KINDS[Closed], KINDS[Batch], KINDS[Snapshot])  # as long as there is traffic; all others are few

encoded = msgspec.msgpack.Encoder().encode
decoded = msgspec.msgpack.Decoder(Entry).decode


@dataclass(frozen=True)
class Record:
    """An entry in its place: positions count up from 1 in the order of commits; `at` is milliseconds since 1970."""

    position: int
    at: int
    model: str
    impression: bytes | None
    entry: Entry
