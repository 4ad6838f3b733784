"""Versions past an erasure, which deletes records that they would be rebuilt from: kept whole, or withdrawn.

Before the records are deleted, the log is followed once more, and each version whose bytes are stored is stored again
with all that learning needs. So it can still be rolled back to, and an earlier generation can still be restored. If
the source is to be unlearned, the versions that learned from it go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perturank.core import Ranker
from perturank.errors import BadInput
from perturank.service.learner import checkpoint
from perturank.service.learner.lead import Superseded
from perturank.service.learner.replay import recall_from
from perturank.service.learner.state import State
from perturank.service.log import Log, Transaction, snapshots
from perturank.service.log.erasure import ErasedSources, requests_to_unlearn
from perturank.service.log.records import Pinned, RolledBack, Snapshot
from perturank.service.log.refusals import Refused
from perturank.service.telemetry.logger import logger

Guard = Callable[[Transaction], None]


def preserve(log: Log, model: str, up_to: int, guard: Guard) -> Iterator[None]:
    """Store the versions up to a position whole, as far as they can still be rebuilt; yield after each record.

    Where the base is damaged, the erasure comes before the versions.
    """
    try:
        yield from _rebuilt(log, model, up_to, guard)
    except (Refused, Superseded):
        raise
    except BadInput as error:
        logger.warning("versions of model %r up to position %d cannot be kept: %s", model, up_to, error)


def _rebuilt(log: Log, model: str, up_to: int, guard: Guard) -> Iterator[None]:
    missing = _missing(log, model, up_to)
    if not missing:
        return
    state = checkpoint.nearest(log, model, recall_from(log), min(missing.values()))
    if not state.unpublished and state.version in missing and state.ranker is not None:  # it is the base
        _store(log, model, state.version, state.ranker, guard)
    for record in log.read(after=state.at, up_to=max(missing.values()), model=model):
        state.take(record)
        entry = record.entry
        if isinstance(entry, Snapshot) and entry.version in missing and state.ranker is not None:
            _store(log, model, entry.version, state.ranker, guard)
        yield


def _missing(log: Log, model: str, up_to: int) -> dict[int, int]:
    """Return the versions to be stored whole that are not yet, with their positions."""
    wanted = set(snapshots.versions(log, model)) - snapshots.whole_versions(log, model)
    published = [snapshots.found(log, model, version) for version in wanted]
    return {each.snapshot.version: each.position for each in published if each is not None and each.position <= up_to}


def _store(log: Log, model: str, version: int, ranker: Ranker, guard: Guard) -> None:
    content = checkpoint.pack_ranker(ranker)  # before others must wait
    with log.transaction() as transaction:
        guard(transaction)
        if transaction.find_model(model) is not None:  # it may have been deleted meanwhile
            transaction.store(snapshots.whole_name(model, version), content)


def drop(log: Log, transaction: Transaction, model: str, at: int, horizon: int) -> None:
    """Drop the whole versions that a base at this position makes superfluous.

    Those stay that are stored and not older than the horizon of the retention, and those that replay goes back to.
    """
    stored, backs = set(snapshots.versions(log, model)), log.all_of(model, RolledBack, after=at)
    needed = {back.entry.version for back in backs if isinstance(back.entry, RolledBack)}
    for version in snapshots.whole_versions(log, model) - needed:
        published = snapshots.found(log, model, version)
        if version not in stored or published is None or published.position < horizon:
            transaction.remove(snapshots.whole_name(model, version))


def withdraw(log: Log, state: State, guard: Guard) -> Iterator[None]:
    """Delete the stored versions that have learned from sources which the model has unlearned; yield now and then.

    Versions before the first record of these sources stay, and are stored whole. If one is pinned that goes, the pin
    goes too. The newest version, which has unlearned them, must be published before.
    """
    model, end = state.model, state.unlearned
    asked = ErasedSources(requests_to_unlearn(log, model, state.based), log.secret)
    first = end
    for record in log.read(up_to=end, model=model):
        if asked.own(record):
            first = record.position
            break
        yield
    yield from preserve(log, model, first, guard)
    stored = {*snapshots.versions(log, model), *snapshots.whole_versions(log, model)}
    published = [each for each in (snapshots.found(log, model, version) for version in stored) if each is not None]
    withdrawn = {each.snapshot.version for each in published if first < each.position < end}
    with log.transaction() as transaction:
        guard(transaction)
        for version in withdrawn:
            transaction.remove(snapshots.version_name(model, version))
            transaction.remove(snapshots.whole_name(model, version))
        pinned = transaction.newest(model, Pinned)
        if pinned is not None and isinstance(pinned.entry, Pinned) and pinned.entry.version in withdrawn:
            transaction.append(model, Pinned(None))
