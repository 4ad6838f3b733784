"""States on disk: where a learner resumes, and the base from which a replay begins.

Up to three states of a model are stored. `state` is the learner's own. `base` is the oldest from which the log can
be followed; a record of the log says so. `next` waits to become the base when it is old enough (retention.py).
Beside them, an erasure leaves versions stored whole (preservation.py).
"""

from __future__ import annotations

import contextlib
import zlib
from collections import deque
from typing import Any

import msgspec
import numpy as np

from perturank import storage
from perturank.core import Ranker
from perturank.drift import Watch
from perturank.errors import BadInput
from perturank.service.learner.state import Completed, OpenImpression, Recall, State
from perturank.service.log import Log, snapshots
from perturank.service.log.records import Changed, Compacted, Deleted
from perturank.service.log.spec import LIMITS_AMONG, Spec

LEVEL = 1  # features hardly compress, and what does goes at once
NUMBERS = ("at", "when", "generation", "version", "learned", "batched", "unpublished", "erased", "based")
LATER = {
    "scaled": 0,
    "is_scale_final": True,
    "shown_since": 0,
    "shown_first": [],
    "lacks_scale": False,
    "layouts": [],
    "unlearned": 0,
    "watched_after": 0,
}  # as states have it that were stored before there was
OPEN = "open"  # the array, beside the ranker's own, that holds what waits


class Open(msgspec.Struct, array_like=True):
    """Impressions that wait for feedback, and that wait to be learned."""

    waiting: dict[bytes, OpenImpression]
    queue: list[Completed]
    taught: list[Completed] = []


def pack(state: State, at: int = 0) -> bytes:
    """Return the state as compressed bytes: unused room of a history takes no space on disk.

    `at`: the position up to which the log was read, if the model's last record is older.
    """
    assert state.ranker is not None
    waits = msgspec.msgpack.encode(Open(state.tracker.waiting, list(state.queue), state.taught))
    content = snapshots.state_bytes(
        state.ranker,
        {OPEN: np.frombuffer(waits, np.uint8)},
        spec=msgspec.to_builtins(state.spec),
        digest=snapshots.digest(state.ranker, whole=True).hex(),
        waiting_from=state.needed_from,
        sources=[each and each.hex() for each in state.sources],
        votes=[(source.hex(), document) for source, document in state.votes],
        watch=list(state.watch),
        **{name: getattr(state, name) for name in (*NUMBERS, *LATER)} | {"at": max(state.at, at)},
    )
    return zlib.compress(content, LEVEL)


def pack_ranker(ranker: Ranker) -> bytes:
    """Return a whole ranker as compressed bytes."""
    return zlib.compress(snapshots.state_bytes(ranker), LEVEL)


def whole_version(log: Log, model: str, version: int) -> Ranker | None:
    """Return a version that is stored with all that learning needs; None: it is not."""
    name = snapshots.whole_name(model, version)
    content = log.stored(name)
    return None if content is None else snapshots.ranker_of(inflate(content, name), name)[0]


def inflate(content: bytes, name: str) -> bytes:
    """Return a stored state as `perturank.load` would read it."""
    try:
        return zlib.decompress(content)
    except zlib.error as error:
        raise BadInput(f"{name} is damaged ({error})", "restore the log from a backup") from None


def header(content: bytes, name: str) -> dict[str, Any]:
    """Return the header of a stored state."""
    return storage.unpacked(inflate(content, name), name)[1]


def position(log: Log, name: str) -> int:
    """Return the position up to which a stored state contains the log; 0: there is none, or it is damaged."""
    content = log.stored(name)
    with contextlib.suppress(BadInput):
        return 0 if content is None else int(header(content, name)["at"])
    return 0


def load(log: Log, model: str, recall: Recall, name: str) -> State | None:
    """Return the state of this name; None where there is none, or where it is damaged or ahead of the log."""
    content = log.stored(name)
    if content is None:
        return None
    try:
        arrays, said = storage.unpacked(inflate(content, name), name)
        ranker = storage.restored(arrays, said, name)
        sources = (each and bytes.fromhex(each) for each in said["sources"])
        votes = ((bytes.fromhex(source), document) for source, document in said.get("votes", ()))
        state = State(
            model,
            recall,
            spec=msgspec.convert(said["spec"], Spec),
            ranker=ranker,
            sources=deque(sources, LIMITS_AMONG),
            votes=deque(votes, LIMITS_AMONG),
            **{name: said[name] for name in NUMBERS},
            **{name: said.get(name, default) for name, default in LATER.items()},
            watch=Watch(*said.get("watch", ())),
        )
        waits = msgspec.msgpack.decode(arrays[OPEN].tobytes(), type=Open)
    except (BadInput, KeyError, msgspec.DecodeError):
        return None
    if snapshots.digest(ranker, whole=True).hex() != said["digest"] or state.at > log.tail():
        return None
    state.tracker.waiting, state.queue, state.taught = waits.waiting, deque(waits.queue), waits.taught
    return state


def base_of(log: Log, model: str) -> Compacted | None:
    """Return the record of a model's base; None: it has none."""
    return next(
        (record.entry for record in log.newest(model, Compacted, 1) if isinstance(record.entry, Compacted)), None
    )


def origin(log: Log, model: str, recall: Recall, at: int | None = None) -> State:
    """Return the oldest state from which the log can be followed (to this position): the base, or nothing learned."""
    base = base_of(log, model)
    ends = [record for record in log.all_of(model, Deleted) if at is None or record.position <= at]
    if ends and (base is None or base.at < ends[-1].position):
        end = ends[-1]
        return State(model, recall, at=end.position, when=end.at, generation=end.position)
    if base is None:
        return State(model, recall)
    if not base.digest:
        return State(model, recall, at=base.at, based=base.at)
    state = load(log, model, recall, snapshots.base_name(model))
    if state is None or state.ranker is None or snapshots.digest(state.ranker, whole=True) != base.digest:
        if base_of(log, model) != base:  # the next one was promoted meanwhile
            return origin(log, model, recall, at)
        raise BadInput(f"the base of model {model!r} is missing or damaged", "restore the log from a backup")
    return state


def nearest(log: Log, model: str, recall: Recall, at: int | None = None) -> State:
    """Return the learner's own state, the next base or the base: the first that lies at or before a position."""
    base = origin(log, model, recall, at)
    for name in (snapshots.state_name(model), snapshots.next_name(model)):
        state = load(log, model, recall, name)
        # Records between an older state and the base may be deleted.
        if state is not None and state.at > base.at and (at is None or state.at <= at):
            return state
    return base


def living(log: Log) -> list[str]:
    """Return the models that were created and not deleted."""
    models: dict[str, bool] = {}
    for record in log.control_records(kinds=(Changed, Deleted)):
        models[record.model] = isinstance(record.entry, Changed)
    return [model for model, lives in models.items() if lives]
