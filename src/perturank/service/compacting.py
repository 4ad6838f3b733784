"""Retention: a model's whole state becomes its base, and the records that have made it are taken out of the log.

One transaction writes base and record; only then are records taken out, a page at a time, and that can be
broken off and begun again at any point.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from perturank.errors import BadInput
from perturank.service import replaying, resuming, snapshots, versions
from perturank.service.changing import last_version
from perturank.service.entries import (
    Batch,
    Changed,
    Closed,
    Compacted,
    Deleted,
    Erased,
    Feedback,
    Imported,
    Impression,
    Record,
    RolledBack,
    Snapshot,
)
from perturank.service.leading import Lead
from perturank.service.log import Log, Transaction
from perturank.service.retention import Retention
from perturank.service.sealing import source_seal

REMOVED = "records removed"  # how many positions are empty: `log verify` counts them
AT_ONCE = 500  # impressions or other records taken out while others wait
SECONDS_BETWEEN_LOOKS = 0.2

Guard = Callable[[Transaction], None]


def known(log: Log) -> list[str]:
    """Return the names of all models that the log has ever known."""
    return list(dict.fromkeys(record.model for record in log.rare(kinds=(Changed,))))


def compact(log: Log, model: str, retention: Retention) -> Compacted | None:
    """Give a model the newest base that the retention allows; None: there is none. Nothing is taken out yet."""
    at = chosen(log, model, retention)
    found = None
    if at is not None:
        state = replaying.followed(log, model, at)
        content = None if state.ranker is None else resuming.stored(state)
        found = based(log, model, content, at)
    return found or raised(log, model, retention)


def raised(log: Log, model: str, retention: Retention, guard: Guard | None = None) -> Compacted | None:
    """Let the base that a model has take out more of what came before it; None: it already takes all that may go.

    One that was laid to erase a source is newer than the retention asks for, and keeps what came before it.
    """
    base, content = resuming.base_of(log, model), log.stored(snapshots.base_name(model))
    if base is None or content is None:
        return None
    try:
        most = _before_what_waits(base.at, resuming.header(content, f"the base of {model}"))
    except BadInput:  # it is damaged: one that is laid anew mends that
        return None
    last = versions.newest(log, model, 1)
    if base.through >= most or not last:
        return None
    through = min(most, _newest_that_may_go(log, model, retention, _now(log), last[0].snapshot) or 0)
    with log.transaction() as transaction:
        if guard is not None:
            guard(transaction)
        newest = transaction.newest(model, Compacted)
        if through <= base.through or newest is None or newest.entry != base:  # another was laid meanwhile
            return None
        entry = msgspec.structs.replace(base, through=through)
        transaction.append(model, entry)
    return entry


def swept(log: Log, models: Sequence[str], seconds: float) -> bool:
    """Take out what the bases of these models ask for, or wait for the learner that leads; return whether it is done.

    Whoever leads has read past a base before it takes anything out; nobody else may.
    """
    found = {model: resuming.base_of(log, model) for model in models}
    bases = {model: base for model, base in found.items() if base is not None}
    end = time.monotonic() + seconds
    while not all(is_swept(log, model, base.at, base.through) for model, base in bases.items()):
        if log.try_to_lead():
            lead = Lead.taken(log)
            for model in bases:
                for _ in sweep(log, model, lead.check):
                    pass
        elif time.monotonic() > end:
            return False
        else:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    return True


def chosen(log: Log, model: str, retention: Retention) -> int | None:
    """Return the position up to which a model may have its next base: of a version, or of the model's end."""
    now = _now(log)
    base, ends = resuming.base_of(log, model), log.all_of(model, Deleted)
    known = max(base.at if base is not None else 0, ends[-1].position if ends else 0)
    last = next((each.snapshot for each in versions.newest(log, model, 1) if each.position > known), None)
    found = None if last is None else _newest_that_may_go(log, model, retention, now, last)
    if found is not None and found > known:
        return _before_roll_backs(log, model, found, known)
    n = last.learned if last is not None else retention.impressions or 0
    return ends[-1].position if ends and retention.lets_go(now - ends[-1].at, n) else None


def _now(log: Log) -> int:
    """Return the time of the last record."""
    return next((record.at for record in log.read(after=log.tail() - 1)), 0)


def _newest_that_may_go(log: Log, model: str, retention: Retention, now: int, last: Snapshot) -> int | None:
    """Return the position of the last version after which enough is kept; None: there is none."""

    def must_stay(position: int) -> bool:
        at = versions.newest(log, model, 1, position)
        return bool(at) and not retention.lets_go(now - at[0].at, n_since(at[0].snapshot, last))

    # The further back, the more time and impressions lie behind it.
    through = bisect_left(range(log.tail() + 1), True, key=must_stay) - 1
    return next((each.position for each in versions.newest(log, model, 1, through)), None)


def n_since(then: Snapshot, now: Snapshot) -> int:
    """Return how many impressions were learned between two versions, at least."""
    return now.learned - then.learned if now.generation == then.generation else now.learned


def _before_roll_backs(log: Log, model: str, position: int, known: int) -> int | None:
    """Return the position, or that of an earlier version that is gone back to later: it must be rebuilt then."""
    for back in reversed(log.all_of(model, RolledBack, after=known)):
        aim = versions.found(log, model, back.entry.version) if isinstance(back.entry, RolledBack) else None
        if aim is not None and aim.position < position < back.position:
            position = aim.position
    return position if position > known else None


def based(
    log: Log, model: str, content: bytes | None, at: int, *, keeps: bool = False, guard: Guard | None = None
) -> Compacted | None:
    """Make a stored state (None: of a model that is gone) the model's base; None: something stands against it.

    `keeps`: the records before it stay, but for those of sources that are to be erased.
    """
    said = {"at": at} if content is None else resuming.header(content, f"the state of {model}")
    is_behind = _is_behind(log, model, said["at"])
    with log.transaction() as transaction:
        if guard is not None:
            guard(transaction)
        entry = _entry(log, transaction, model, said, keeps)
        if entry is not None:
            transaction.append(model, entry)
            _store(log, transaction, model, content, entry)
            if is_behind:
                transaction.remove(snapshots.state_name(model))
    return entry


def _is_behind(log: Log, model: str, at: int) -> bool:
    """Return whether the learner's own stored state is older than this, or damaged: of no more use than a base."""
    name = snapshots.state_name(model)
    content = log.stored(name)
    try:
        return content is not None and int(resuming.header(content, name)["at"]) <= at
    except BadInput:
        return True


def _entry(log: Log, transaction: Transaction, model: str, said: dict[str, Any], keeps: bool) -> Compacted | None:
    """Return what is to be said of a state with this header as the base; None: it cannot be one."""
    before = transaction.newest(model, Compacted)
    earlier = before.entry if before is not None and isinstance(before.entry, Compacted) else None
    at, version = said["at"], said.get("version", 0) + bool(said.get("unpublished"))
    if earlier is not None and earlier.at >= at:
        if "digest" in said or earlier.through >= at:
            return None
        at = earlier.at  # a model that was gone when a source was erased from it: that base has kept the rest
    if _is_contradicted(log, model, at, version):
        return None
    through = _before_what_waits(at, said)
    if keeps:
        through = earlier.through if earlier is not None else 0
    if "digest" not in said:  # the model is gone, but should it come back, its versions count on
        return Compacted(at, through, last_version(transaction, model), 0, b"")
    return Compacted(at, through, version, said["learned"], bytes.fromhex(said["digest"]))


def _before_what_waits(at: int, said: dict[str, Any]) -> int:
    """Return up to where a base at this position can do without the records before it."""
    waiting = said.get("waiting_from")
    return at if waiting is None else min(at, int(waiting) - 1)


def _is_contradicted(log: Log, model: str, at: int, version: int) -> bool:
    """Return whether the model has ended since, or has gone back to a version that the base does not know."""
    backs = (record.entry for record in log.all_of(model, RolledBack, after=at))
    return bool(log.all_of(model, Deleted, after=at)) or any(
        isinstance(back, RolledBack) and back.version < version for back in backs
    )


def _store(log: Log, transaction: Transaction, model: str, content: bytes | None, entry: Compacted) -> None:
    """Store the base in place of the one before, and drop what only led up to it."""
    if content is None:
        transaction.remove(snapshots.base_name(model))
    else:
        transaction.store(snapshots.base_name(model), content)
    for name in log.names(snapshots.mark_prefix(model)):
        if name <= snapshots.mark_name(model, entry.version):
            transaction.remove(name)
    later = {r.entry.blob for r in log.all_of(model, Imported, after=entry.at) if isinstance(r.entry, Imported)}
    for name in log.names(f"{model}/imported/"):
        if name not in later:
            transaction.remove(name)


@dataclass(frozen=True)
class Superfluous:
    """The records of a model that its base has made superfluous, or that a source wants to be gone."""

    base: Compacted
    erased: dict[bytes, int]  # sealed sources, and up to where they are erased
    closed: int  # the newest closing, which says what is late
    stored: frozenset[int]  # versions whose bytes are there
    secret: bytes

    @property
    def through(self) -> int:
        """The position after which there are none."""
        return max([self.base.through, *self.erased.values()])

    def __contains__(self, record: Record) -> bool:
        old = record.position <= self.base.through
        match record.entry:
            case Impression(source=source):
                return old or record.position <= self._erased_through(source)
            case Feedback() | Batch():
                return old
            case Closed():
                return old and record.position != self.closed
            case Snapshot(version=version):
                return old and version < self.base.version and version not in self.stored
            case _:
                return False

    def _erased_through(self, source: str | None) -> int:
        return 0 if source is None or not self.erased else self.erased.get(source_seal(source, self.secret), 0)


def sweep(log: Log, model: str, guard: Guard) -> Iterator[int]:
    """Take out what is superfluous; yields, after each page, how many records went.

    `guard` stops one that has lost its place: another may be reading what it would take out.
    """
    goes = _superfluous(log, model)
    if goes is None:
        return
    positions, names = [], []
    for record in log.read(through=goes.through, model=model):
        if record in goes and isinstance(record.entry, Impression) and record.impression is not None:
            names.append(record.impression)
        elif record in goes:
            positions.append(record.position)
        if len(positions) + len(names) >= AT_ONCE:
            yield _cut(log, positions, names, guard)
            positions, names = [], []
    yield _cut(log, positions, names, guard)
    with log.transaction() as transaction:
        guard(transaction)
        transaction.remember(_swept(model), goes.base.at)
        transaction.remember(_swept_through(model), goes.base.through)
    while log.give_back():
        yield 0


def _superfluous(log: Log, model: str) -> Superfluous | None:
    """Return what is still to be taken out of the log; None: nothing is."""
    base = resuming.base_of(log, model)
    with log.transaction() as transaction:
        swept, closed = transaction.remembered(_swept(model)), transaction.newest(model, Closed)
    if base is None or is_swept(log, model, base.at, base.through):
        return None
    wishes = [record for record in log.all_of(model, Erased, after=swept) if record.position <= base.at]
    erased = {record.entry.source: record.position for record in wishes if isinstance(record.entry, Erased)}
    stored = frozenset(snapshots.versions(log, model))
    return Superfluous(base, erased, closed.position if closed is not None else 0, stored, log.secret)


def n_removed(log: Log) -> int:
    """Return how many records were ever taken out."""
    with log.transaction() as transaction:
        return transaction.remembered(REMOVED)


def is_swept(log: Log, model: str, position: int, through: int = 0) -> bool:
    """Return whether everything is taken out that a base after this position asks for, and that one through there."""
    with log.transaction() as transaction:
        swept, out = transaction.remembered(_swept(model)), transaction.remembered(_swept_through(model))
    return swept >= position and out >= through


def _swept(model: str) -> str:
    return f"{model} swept"


def _swept_through(model: str) -> str:
    return f"{model} swept through"  # apart from where the base lies: a base can come to take out more


def _cut(log: Log, positions: list[int], names: list[bytes], guard: Guard) -> int:
    with log.transaction() as transaction:
        guard(transaction)
        n = transaction.cut(positions, names)
        transaction.remember(REMOVED, transaction.remembered(REMOVED) + n)
    return n
