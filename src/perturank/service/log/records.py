"""The log's records: each kind of entry, the ids, arrays and probability of an impression, and the export as JSON."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np

from perturank.service.log.refusals import NotKnown, Refused
from perturank.service.log.spec import Spec
from perturank.wire.live_tests import LiveTest
from perturank.wire.specification import CLICK, OnDrift, ShownMode

LEVEL = 1  # of compression; more takes three times as long for a few percent
CLOSE = 1e-6  # float32 cannot tell a logarithm from another nearer than this
ID_POSITION_BYTES, ID_RANDOM_BYTES, ID_SIGNATURE_BYTES = 5, 7, 8
ID_BYTES = ID_POSITION_BYTES + ID_RANDOM_BYTES
OWN = b"\xff"  # begins a name that comes from a query_id; no log has so many positions that another one could
SOURCE_BYTES = 16
SECRET_BYTES = 32

Effect = Literal["counted", "early", "late"]
EventKey = tuple[str, str]  # a document and the action: an event counts once


class Changed(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A model was created or changed; generation 0: its learning begins anew at this record."""

    generation: int  # the position at which learning began; 0: this one
    spec: Spec


class Deleted(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A model was deleted, with its snapshots."""


class Drafted(msgspec.Struct, frozen=True, array_like=True):
    """How a live test made a list: which arm earns what its documents are worth, and who learns from it."""

    teams: list[int]  # the arm of each place; -1: none, since all agree
    specs: list[int]  # positions of the test's and of each arm's last change; 0: the caller's own order
    versions: list[int]  # of each arm
    counts: bool  # False: the caller's own order, since no program was compiled
    learners: list[int]  # arms whose models have the list too
    group: int = -1  # of a split: to which the source belongs


class Impression(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A list that was shown, with what `learn` needs of its documents."""

    generation: int
    version: int
    mode: ShownMode
    ids: list[str]
    log_propensity: float | None
    packed: bytes  # features, prior and memo: see `packed` below
    source: str | None = None
    ours: list[str] | None = None  # the list that the model would have shown, if the caller showed its own order
    agreed: bytes | None = None  # log-probabilities of agreeing with the best estimate so far: see serving/sampling.py
    earlier: list[bytes] = []  # names of the pages before this one, the first page first
    own_agreed: bytes | None = None  # `agreed`, with the caller's own order; None: its quality is not counted
    shown_at: int | None = None  # of an imported list, if that is known: milliseconds since 1970
    drafted: Drafted | None = None  # of a live test
    log_p: bytes | None = None  # of each place given those above it, float32; empty: all are certain; None: not known
    query: bytes | None = None  # a keyed digest of its text
    query_text: str | None = None  # as it was typed, if the model keeps it
    candidates: bytes | None = None  # all documents, of a sample of impressions: see candidates.py

    @property
    def place_log_p(self) -> list[float] | None:
        """The log-probability of each place given those above it; None: not known."""
        if self.log_p is None:
            return None
        return np.frombuffer(self.log_p, "<f4").tolist() if self.log_p else [0.0] * len(self.ids)


class Event(msgspec.Struct, frozen=True, array_like=True):
    """What somebody did with a shown document."""

    id: str
    action: str
    value: float | None = None

    @property
    def key(self) -> EventKey:
        """What tells it from other events of the same impression."""
        return self.id, self.action


def document_worths(events: Iterable[EventKey], actions: Mapping[str, float]) -> dict[str, float]:
    """Return what each document is worth: its best action, less what its worst one takes away.

    Actions that the model no longer knows are worth nothing.

    >>> document_worths([("a", "click"), ("a", "buy"), ("a", "dismiss")], {"click": 1, "buy": 10, "dismiss": -1})
    {'a': 9}
    """
    best: dict[str, float] = {}
    worst: dict[str, float] = {}
    for document, action in events:
        worth = actions.get(action, 0)
        best[document] = max(best.get(document, 0), worth)
        worst[document] = min(worst.get(document, 0), worth)
    return {document: best[document] + worst[document] for document in best}


class Feedback(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """What is new about an impression: clicks, other events, how many top places were seen."""

    clicks: list[str]
    final: bool  # all that is known of the impression settles here
    effect: Effect
    events: list[Event] | None = None  # beside the clicks; None: a record of an earlier version, whose `final` was last
    seen: int = 0  # 0: nothing new is known
    source: str | None = None  # who did it, where the impression does not say

    @property
    def event_keys(self) -> list[EventKey]:
        """All events, clicks among them."""
        return [*((each, CLICK) for each in self.clicks), *(event.key for event in self.events or ())]

    @property
    def was_last(self) -> bool:
        """Whether nothing more is learned of the impression: so it was in earlier versions."""
        return self.final and self.events is None


class Closed(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The feedback window closed over all impressions of the model up to this position."""

    through: int


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A batch to learn from: the impressions completed up to this position, except those skipped.

    One record can complete many impressions, so the position alone does not say where a batch ends.
    """

    through: int
    n: int
    skipped: list[bytes]  # by the limits on one source's influence, each as often as it is skipped
    is_counted: bool = False  # the first n and those skipped, no more; in logs of earlier versions: all up to there
    keeps_first: bool = False  # what completed a skipped one before; in logs of earlier versions that is skipped too


class Snapshot(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """A version was published: the model after all batches up to this record."""

    generation: int
    version: int
    learned: int  # impressions so far
    digest: bytes  # of the arrays that serving needs
    checksum: bytes  # of the stored bytes, which serving reads
    epoch: int  # of the learner that published it


class Pinned(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A version was pinned: it is served even when newer ones are published; None: the newest again."""

    version: int | None
    generation: int = 0  # of the version, if that is an earlier one; 0: the present one


class RolledBack(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Learning continues from this version; what was learned after it is dropped.

    Behind a change that restores a generation, this is the last version of it.
    """

    version: int
    generation: int = 0  # that is restored; 0: the version is of the present one
    learned: int = 0  # impressions, by a generation that is restored


class Imported(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Learning continues from a ranker that was imported from a file, stored as this blob."""

    blob: str


class Compacted(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """The model's state was stored as its base: a replay begins there, and earlier records may be deleted."""

    at: int  # the base contains every record of the model up to this position
    through: int  # impressions, feedback and batches up to this position are deleted; at most `at`
    version: int  # the first version that can be rebuilt
    learned: int
    digest: bytes  # of all its arrays; empty: the model had been deleted, and there is no base


class Erased(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """A request to delete all records of one source up to this one."""

    source: bytes  # a keyed hash: it can be compared with a known source, and does not reveal one
    unlearn: bool = False  # what was learned goes too: the model is learned anew from the records that are left


class Scaled(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Location and spread of the features and the prior, estimated from a generation's first n impressions.

    What was learned until here is learned again at this scale, from the beginning.
    """

    n: int
    location: list[float]
    spread: list[float]
    is_last: bool  # the scale stays as it is from here on


class Settled(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """The events of these impressions have settled: what is known of them is learned."""

    impressions: list[bytes]


class LiveTestChanged(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """A live test was begun or changed: it counts anew from here."""

    spec: LiveTest


class LiveTestStopped(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """A live test was stopped, and perhaps an arm promoted."""

    promoted: str | None = None


class Drifted(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """People seem to want something else: the first click would stand lower in the best estimate's lists than before.

    The reaction takes place here.
    """

    lists: int  # with a click, over which the mean has fallen
    before: float  # mean reciprocal rank
    after: float
    reaction: OnDrift


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
    | Scaled
    | Settled
    | LiveTestChanged
    | LiveTestStopped
    | Drifted
)

KINDS: dict[type, int] = {kind: number for number, kind in enumerate(get_args(Entry), start=1)}  # as tagged above
TRAFFIC_KINDS = (KINDS[Impression], KINDS[Feedback])  # written for requests; all others are control records
ROUTINE_KINDS = (
    *TRAFFIC_KINDS,
    KINDS[Closed],
    KINDS[Batch],
    KINDS[Snapshot],
    KINDS[Settled],
)  # written as long as there is traffic; all others are few

encoded = msgspec.msgpack.Encoder().encode
decoded = msgspec.msgpack.Decoder(Entry).decode


@dataclass(frozen=True)
class Record:
    """An entry with its position, which counts from 1 in the order of commits; `at` is milliseconds since 1970."""

    position: int
    at: int
    model: str
    impression: bytes | None
    entry: Entry


class CurrentModel(NamedTuple):
    """A model as the newest records have it."""

    spec: Spec
    generation: int


def new_id(position: int) -> bytes:
    """Return a new id of an impression, made when the log ended at this position; 12 bytes."""
    return position.to_bytes(ID_POSITION_BYTES, "big") + os.urandom(ID_RANDOM_BYTES)


def own_id(query_id: str, model: str, secret: bytes, n: int = 0) -> bytes:
    """Return the id of a list that the caller has named: the same for the same query_id of the same model; 12 bytes.

    A query may have several lists, such as its pages: `n` counts them from 0.
    """
    content = msgspec.msgpack.encode([model, query_id, n])
    return OWN + hashlib.blake2b(content, key=secret, digest_size=ID_BYTES - len(OWN), person=b"query").digest()


def made_at(name: bytes) -> int | None:
    """Return the position at which the log ended when the id was made; None: the caller has named the list."""
    return None if name.startswith(OWN) else int.from_bytes(name[:ID_POSITION_BYTES], "big")


def sign_id(name: bytes, model: str, secret: bytes) -> str:
    """Return the id as clients see it: URL-safe and signed, which tells our ids from made-up ones; 27 characters."""
    return base64.urlsafe_b64encode(name + _signature(name, model, secret)).rstrip(b"=").decode()


def verify_id(text: str, model: str, secret: bytes) -> bytes:
    """Return the id without its signature; refuse one that this log did not give for this model.

    Feedback with a signed id that is not in the log came early.
    """
    try:
        content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        content = b""
    name, signature = content[:ID_BYTES], content[ID_BYTES:]
    if not hmac.compare_digest(signature, _signature(name, model, secret)) or sign_id(name, model, secret) != text:
        raise NotKnown(f"impression {text[:40]!r} was not given by this model", "send back what /rank answered")
    return name


def source_seal(source: str, secret: bytes) -> bytes:
    """Return a keyed hash of a client, user or session, which does not reveal it; 16 bytes."""
    return hashlib.blake2b(source.encode(), key=secret, digest_size=SOURCE_BYTES, person=b"source").digest()


def query_seal(text: str, secret: bytes) -> bytes:
    """Return a keyed hash of a query's text: equal texts have equal ones, and it does not reveal them; 16 bytes."""
    return hashlib.blake2b(text.encode(), key=secret, digest_size=SOURCE_BYTES, person=b"query").digest()


def _signature(name: bytes, model: str, secret: bytes) -> bytes:
    return hashlib.blake2b(name + model.encode(), key=secret, digest_size=ID_SIGNATURE_BYTES).digest()


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """Shapes and bytes of shown documents; `prior` is empty if there was none; `memo` has its leaves in order."""

    n: int
    d: int
    features: bytes
    prior: bytes
    memo: list[bytes]


def packed(
    features: np.ndarray, prior: np.ndarray | None, memo: Sequence[np.ndarray] = (), *, level: int = LEVEL
) -> bytes:
    """Return the bytes of shown documents [n, d], their prior [n] and the memo's leaves."""
    n, d = features.shape
    planes = _planes(np.ascontiguousarray(features, "<f4"))
    content = Packed(
        n,
        d,
        zlib.compress(planes, level),
        b"" if prior is None else np.ascontiguousarray(prior, "<f4").tobytes(),
        [zlib.compress(np.ascontiguousarray(leaf).tobytes(), LEVEL) for leaf in memo],
    )
    return msgspec.msgpack.encode(content)


def unpacked(content: bytes, memo_like: Sequence[Any] | None) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return features [n, d], prior [n] and the memo's leaves, shaped like `memo_like` (None: without it)."""
    try:
        arrays = msgspec.msgpack.decode(content, type=Packed)
        planes = np.frombuffer(zlib.decompress(arrays.features), np.uint8).reshape(4, -1)
        features = np.ascontiguousarray(planes.T).view("<f4").reshape(arrays.n, arrays.d)
        prior = np.frombuffer(arrays.prior, "<f4") if arrays.prior else np.zeros(arrays.n, np.float32)
        memo = [
            np.frombuffer(zlib.decompress(leaf), like.dtype).reshape(like.shape)
            for leaf, like in (zip(arrays.memo, memo_like, strict=True) if memo_like is not None else ())
        ]
    except (ValueError, zlib.error, msgspec.MsgspecError) as error:
        raise Refused(f"an impression cannot be read ({error})", "run `perturank log verify`") from None
    return features, prior, memo


def rearranged(features: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """Return these columns of features [n, d]; a column of -1 is one that the documents did not have yet, NaN."""
    absent = np.full(len(features), np.nan, features.dtype)
    return np.column_stack([features, absent])[:, list(columns)]


def layout_change(then: Sequence[int], now: Sequence[int]) -> list[int]:
    """Return where the features of now stand among those of then; -1: nowhere. Both as `Spec.layout` has them."""
    places = {column: i for i, column in enumerate(then)}
    return [places.get(column, -1) for column in now]


def _planes(rows: np.ndarray) -> bytes:
    """Return all first bytes, all second bytes, …: signs and exponents repeat, which compresses well."""
    return rows.view(np.uint8).reshape(-1, 4).T.tobytes()


def as_json(record: Record, secret: bytes, *, with_features: bool = False) -> dict[str, Any]:
    """Return a record as JSON values: position, kind, model, at, impression, and the fields of its kind."""
    name = record.impression
    return {
        "position": record.position,
        "kind": type(record.entry).__name__.lower(),
        "model": record.model,
        "at": _iso(record.at),
        **({} if name is None else {"impression": sign_id(name, record.model, secret)}),
        **_content(record, secret, with_features),
    }


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _content(record: Record, secret: bytes, with_features: bool) -> dict[str, Any]:
    match record.entry:
        case Impression() as shown:
            before = [sign_id(name, record.model, secret) for name in shown.earlier[-1:]]
            return _impression(shown, with_features) | ({"continues": before[0]} if before else {})
        case Batch() as batch:
            skipped = [sign_id(name, record.model, secret) for name in batch.skipped]
            return {"through": batch.through, "n": batch.n, "skipped": skipped}
        case Feedback(events=events) as said:
            others = [msgspec.structs.asdict(each) for each in events or ()]
            return msgspec.structs.asdict(said) | {"events": others}
        case Settled(impressions=names):
            return {"impressions": [sign_id(name, record.model, secret) for name in names]}
        case Compacted() as base:  # `at` of a line is its time, and this one is a position
            return {"base_at" if name == "at" else name: value for name, value in _values(base).items()}
        case entry:
            return _values(entry)


def _values(entry: Entry) -> dict[str, Any]:
    values = msgspec.structs.asdict(entry)
    return {k: v.hex() if isinstance(v, bytes) else msgspec.to_builtins(v) for k, v in values.items()}


def _impression(shown: Impression, with_features: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "generation": shown.generation,
        "version": shown.version,
        "mode": shown.mode,
        "ranking": shown.ids,
        "propensity": None if shown.log_propensity is None else probability(shown.log_propensity),
        "source": shown.source,
        **({} if shown.ours is None else {"ours": shown.ours}),
        **({} if shown.shown_at is None else {"shown_at": _iso(shown.shown_at)}),
        **({} if shown.drafted is None else {"drafted": msgspec.structs.asdict(shown.drafted)}),
        **({} if shown.log_p is None else {"place_propensities": [probability(p) for p in shown.place_log_p or ()]}),
        **({} if shown.query is None else {"query_digest": shown.query.hex()}),
        **({} if shown.query_text is None else {"query": shown.query_text}),
    }
    if with_features and shown.packed:
        features, prior, _ = unpacked(shown.packed, None)
        values |= {"features": features.tolist(), "prior": prior.tolist()}
    return values


def log_probability(log_p: Sequence[float], free: Sequence[int]) -> float:
    """Return the log-probability of a list from those of its places; one within rounding of 1/free counts as 1/free."""
    total, n_lists = 0.0, 1
    for place, n in zip(log_p, free, strict=True):
        surprise = math.log(max(n, 1))
        if abs(place + surprise) <= CLOSE * surprise:
            n_lists *= max(n, 1)  # as an integer: 3! lists of equal chance are 6, not e^1.79175946
        else:
            total += place
    return total - math.log(n_lists)


def probability(log_p: float) -> float:
    """Return the probability to the seven digits that float32 knows.

    >>> probability(-math.log(2)), probability(-math.log(3))
    (0.5, 0.3333333)
    """
    return float(f"{math.exp(log_p):.7g}")
