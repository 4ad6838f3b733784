"""Retention: a model's whole state becomes its base, and the records that have made it are taken out of the log.

One transaction writes base and record; only then are records taken out, a page at a time, and that can be
broken off and begun again at any point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perturank.service import replaying, resuming, snapshots
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
from perturank.service.log import Log, Transaction
from perturank.service.retention import Retention
from perturank.service.sealing import source_seal

REMOVED = "records removed"  # how many positions are empty: `log verify` counts them
AT_ONCE = 500  # impressions or other records taken out while others wait

Guard = Callable[[Transaction], None]


def known(log: Log) -> list[str]:
    """Return the names of all models that the log has ever known."""
    return list(dict.fromkeys(record.model for record in log.rare() if isinstance(record.entry, Changed)))


def compact(log: Log, model: str, retention: Retention) -> Compacted | None:
    """Give a model the newest base that the retention allows, and take out what came before; None: there is none."""
    record = chosen(log, model, retention)
    found = None
    if record is not None:
        recall = replaying.recalled(log)
        state = resuming.nearest(log, model, recall, record.position)
        state = replaying.followed(log, state, record.position)
        content = None if state.ranker is None else resuming.stored(state)
        found = based(log, model, content, record.position)
    for _ in sweep(log, model):
        pass
    return found


def chosen(log: Log, model: str, retention: Retention) -> Record | None:
    """Return the record after which a model may have its next base: a version, or the model's end."""
    now = next((record.at for record in log.read(after=log.tail() - 1)), 0)
    base, ends = resuming.base_of(log, model), log.all_of(model, Deleted)
    known = max(base.at if base is not None else 0, ends[-1].position if ends else 0)
    published = [(r, r.entry) for r in log.all_of(model, Snapshot, after=known) if isinstance(r.entry, Snapshot)]
    for record, snapshot in reversed(published):
        if retention.lets_go(now - record.at, n_since(snapshot, published[-1][1])):
            return _before_roll_backs(log, model, record, {each.version: r for r, each in published})
    n = published[-1][1].learned if published else retention.impressions or 0
    return ends[-1] if ends and retention.lets_go(now - ends[-1].at, n) else None


def n_since(then: Snapshot, now: Snapshot) -> int:
    """Return how many impressions were learned between two versions, at least."""
    return now.learned - then.learned if now.generation == then.generation else now.learned


def _before_roll_backs(log: Log, model: str, record: Record, published: dict[int, Record]) -> Record:
    """Return the record, or an earlier version that is gone back to later: it must be rebuilt then."""
    for back in log.all_of(model, RolledBack, after=record.position):
        aim = published.get(back.entry.version) if isinstance(back.entry, RolledBack) else None
        if aim is not None and aim.position < record.position:
            return _before_roll_backs(log, model, aim, published)
    return record


def based(
    log: Log, model: str, content: bytes | None, at: int, *, keeps: bool = False, guard: Guard | None = None
) -> Compacted | None:
    """Make a stored state (None: of a model that is gone) the model's base; None: something stands against it.

    `keeps`: the records before it stay, but for those of sources that are to be erased.
    """
    said = {} if content is None else resuming.header(content, f"the state of {model}")
    at = said.get("at", at)
    waiting = said.get("waiting_from")
    version = said.get("version", 0) + bool(said.get("unpublished"))
    with log.transaction() as transaction:
        if guard is not None:
            guard(transaction)
        before = transaction.newest(model, Compacted)
        earlier = before.entry if before is not None and isinstance(before.entry, Compacted) else None
        if (earlier is not None and earlier.at >= at) or _is_contradicted(log, model, at, version):
            return None
        if content is None:
            version = last_version(transaction, model)  # its number is counted on from, should the model come back
        through = at if waiting is None else min(at, waiting - 1)
        if keeps:
            through = earlier.through if earlier is not None else 0
        entry = Compacted(at, through, version, said.get("learned", 0), bytes.fromhex(said.get("digest", "")))
        transaction.append(model, entry)
        _store(log, transaction, model, content, entry)
    return entry


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


def sweep(log: Log, model: str) -> Iterator[int]:
    """Take out what the newest base has made superfluous; yields, after each page, how many records went."""
    base = resuming.base_of(log, model)
    if base is None:
        return
    with log.transaction() as transaction:
        swept = transaction.remembered(_swept(model))
        closed = transaction.newest(model, Closed)
    if swept >= base.at:
        return
    wishes = [r for r in log.all_of(model, Erased, after=swept) if r.position <= base.at]
    erased = {r.entry.source: r.position for r in wishes if isinstance(r.entry, Erased)}
    kept = set(snapshots.versions(log, model))
    positions, names = [], []
    for record in log.read(through=max([base.through, *erased.values()]), model=model):
        old = record.position <= base.through
        match record.entry:
            case Impression() as shown if record.impression is not None:
                if old or _is_erased(log, record.position, shown, erased):
                    names.append(record.impression)
            case Feedback() | Batch() if old:
                positions.append(record.position)
            case Closed() if old and closed is not None and record.position != closed.position:
                positions.append(record.position)
            case Snapshot(version=version) if old and version < base.version and version not in kept:
                positions.append(record.position)
        if len(positions) + len(names) >= AT_ONCE:
            yield _cut(log, positions, names)
            positions, names = [], []
    yield _cut(log, positions, names)
    with log.transaction() as transaction:
        transaction.remember(_swept(model), base.at)
    while log.give_back():
        yield 0


def is_swept(log: Log, model: str, position: int) -> bool:
    """Return whether everything is taken out that a base after this position asks for."""
    with log.transaction() as transaction:
        return transaction.remembered(_swept(model)) >= position


def _swept(model: str) -> str:
    return f"{model} swept"


def _is_erased(log: Log, position: int, shown: Impression, erased: dict[bytes, int]) -> bool:
    if shown.source is None or not erased:
        return False
    return position <= erased.get(source_seal(shown.source, log.secret), 0)


def _cut(log: Log, positions: list[int], names: list[bytes]) -> int:
    with log.transaction() as transaction:
        n = transaction.cut(positions, names)
        transaction.remember(REMOVED, transaction.remembered(REMOVED) + n)
    return n
