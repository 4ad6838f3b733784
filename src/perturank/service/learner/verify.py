"""Verification of a log: order, references, effects of feedback, stored versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from perturank.errors import BadInput
from perturank.service.learner.retention import n_removed, removed_before
from perturank.service.log import Log, snapshots
from perturank.service.log.records import (
    Batch,
    Compacted,
    Feedback,
    Impression,
    Record,
    Settled,
    Snapshot,
    made_at,
    unpacked,
)

AT_ONCE = 500  # records in memory, and what else the log says of their impressions


class Seen:
    """What the check has seen so far."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.n = self.last = self.at = self.compacted = 0


def faults(log: Log) -> Iterator[str]:
    """Yield what is wrong with the log, one line each."""
    yield from log.damage()
    seen, records = Seen(), log.read()
    while some := list(islice(records, AT_ONCE)):
        about = _about(log, some)
        for record in some:
            if record.position != seen.last + 1 and not _is_compacted(log, record, seen):
                yield f"position {seen.last + 1} is missing"
            if record.at < seen.at:
                yield f"position {record.position}: it is older than the record before it"
            for fault in _of_record(log, record, seen, about):
                yield f"position {record.position}: {fault}"
            seen.n, seen.last, seen.at = seen.n + 1, record.position, record.at
    missing = seen.last - seen.n - n_removed(log)
    if seen.compacted and missing > 0:
        yield f"{missing} records are missing that no compaction has taken out"


def _about(log: Log, records: Sequence[Record]) -> dict[bytes, list[Record]]:
    """Return all records of the impressions of these records."""
    about: dict[bytes, list[Record]] = {record.impression: [] for record in records if record.impression is not None}
    for each in log.about(list(about)):
        if each.impression is not None:
            about[each.impression].append(each)
    return about


def _is_compacted(log: Log, record: Record, seen: Seen) -> bool:
    """Return whether records before this one may be deleted; a base may be new since the last look."""
    if record.position > seen.compacted:
        seen.compacted = _compacted(log)
    return record.position <= seen.compacted


def _compacted(log: Log) -> int:
    """Return the position of the last record before which others may be missing.

    Feedback may follow a base and still be deleted for it, with its impression.
    """
    last = max((record.position for record in log.control_records(kinds=(Compacted,))), default=0)
    return max(last, removed_before(log) + 1) if last else 0


def _of_record(log: Log, record: Record, seen: Seen, about: dict[bytes, list[Record]]) -> Iterator[str]:
    match record.entry:
        case Impression() as shown:
            yield from _of_impression(record, shown, _before(record, about))
        case Feedback() as said:
            yield from _of_feedback(record, said, _before(record, about))
        case Settled(impressions=names):
            if any((made_at(name) or 0) >= record.position for name in names):
                yield "an impression settles before it was shown"
        case Batch(through=through) if through >= record.position:
            yield f"a batch goes up to {through}, which lies ahead of it"
        case Snapshot() as snapshot:
            if snapshot.version <= seen.versions.get(record.model, 0):
                yield f"version {snapshot.version} comes after {seen.versions[record.model]}"
            seen.versions[record.model] = snapshot.version
            content = log.stored(snapshots.version_name(record.model, snapshot.version))
            if content is not None and snapshots.checksum(content) != snapshot.checksum:
                yield f"the stored version {snapshot.version} is damaged"


def _before(record: Record, about: dict[bytes, list[Record]]) -> list[Record] | None:
    """Return the records of an impression before this one; None: they were deleted meanwhile."""
    if record.impression is None:
        return []
    records = about[record.impression]
    here = next((i for i, each in enumerate(records) if each.position == record.position), None)
    return None if here is None else records[:here]


def _of_impression(record: Record, shown: Impression, before: Sequence[Record] | None) -> Iterator[str]:
    if before is None:
        return
    if record.impression is None or any(isinstance(each.entry, Impression) for each in before):
        yield "an impression without a name of its own"
        return
    if shown.drafted is not None:  # a test's list, whose features the models that learn from it have
        if len(shown.drafted.teams) != len(shown.ids):
            yield f"{len(shown.ids)} ids for {len(shown.drafted.teams)} teams"
        return
    try:
        features, prior, _ = unpacked(shown.packed, None)
    except BadInput as error:
        yield str(error)
        return
    if not len(features) == len(prior) == len(shown.ids) == len(set(shown.ids)):
        yield f"{len(shown.ids)} ids for {len(features)} documents"


def _of_feedback(record: Record, said: Feedback, before: Sequence[Record] | None) -> Iterator[str]:
    if record.impression is None:
        yield "feedback on nothing"
        return
    if before is None:
        return
    shown = next((each.entry.ids for each in before if isinstance(each.entry, Impression)), None)
    given = [each.entry for each in before if isinstance(each.entry, Feedback)]
    again = {key for entry in given for key in entry.event_keys} & set(said.event_keys)
    if said.effect == "counted" and shown is None:
        yield "feedback counted before its impression"
    if said.effect != "late" and any(entry.was_last for entry in given):
        yield "feedback after the last word"
    if again:
        document, action = min(again)
        yield f"a {action} on {document!r} counted twice"
    if shown is not None and not {document for document, _ in said.event_keys} <= set(shown):
        yield "an event of what was not shown"
