"""Versions kept whole past an erasure, which deletes records that they would be rebuilt from.

Before the records are deleted, the log is followed once more, and each version whose bytes are stored is stored again
with all that learning needs. So it can still be rolled back to, and an earlier generation can still be restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perturank.core import Ranker
from perturank.errors import BadInput
from perturank.service.learner import checkpoint
from perturank.service.learner.lead import Superseded
from perturank.service.learner.replay import recall_from
from perturank.service.log import Log, Transaction, snapshots
from perturank.service.log.records import RolledBack, Snapshot
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
