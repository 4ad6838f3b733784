"""Whether a log is whole: order, references, effects of feedback, stored versions."""

from __future__ import annotations

from collections.abc import Iterator

from perturank.errors import BadInput
from perturank.service import snapshots
from perturank.service.compacting import n_removed
from perturank.service.entries import Batch, Compacted, Feedback, Impression, Record, Snapshot
from perturank.service.log import Log
from perturank.service.packing import unpacked


class Seen:
    """What the records so far have said of each impression."""

    def __init__(self) -> None:
        self.shown: dict[bytes, list[str]] = {}
        self.clicked: dict[bytes, set[str]] = {}
        self.final: set[bytes] = set()
        self.versions: dict[str, int] = {}
        self.n = self.last = self.at = 0


def faults(log: Log) -> Iterator[str]:
    """Yield what is wrong with the log, one line each."""
    seen, compacted = Seen(), _compacted(log)
    for record in log.read():
        if record.position != seen.last + 1 and record.position > compacted:
            yield f"position {seen.last + 1} is missing"
        if record.at < seen.at:
            yield f"position {record.position}: it is older than the record before it"
        for fault in _of_record(log, record, seen):
            yield f"position {record.position}: {fault}"
        seen.n, seen.last, seen.at = seen.n + 1, record.position, record.at
    missing = seen.last - seen.n - n_removed(log)
    if compacted and missing > 0:
        yield f"{missing} records are missing that no compaction has taken out"


def _compacted(log: Log) -> int:
    """Return the position of the last record before which others may be missing."""
    return max((record.position for record in log.rare(kinds=(Compacted,))), default=0)


def _of_record(log: Log, record: Record, seen: Seen) -> Iterator[str]:
    match record.entry:
        case Impression() as shown:
            yield from _of_impression(record, shown, seen)
        case Feedback() as said:
            yield from _of_feedback(record, said, seen)
        case Batch(through=through) if through >= record.position:
            yield f"a batch goes up to {through}, which lies ahead of it"
        case Snapshot() as snapshot:
            if snapshot.version <= seen.versions.get(record.model, 0):
                yield f"version {snapshot.version} comes after {seen.versions[record.model]}"
            seen.versions[record.model] = snapshot.version
            content = log.stored(snapshots.version_name(record.model, snapshot.version))
            if content is not None and snapshots.sum_of(content) != snapshot.sum:
                yield f"the stored version {snapshot.version} is damaged"


def _of_impression(record: Record, shown: Impression, seen: Seen) -> Iterator[str]:
    if record.impression is None or record.impression in seen.shown:
        yield "an impression without a name of its own"
        return
    seen.shown[record.impression] = shown.ids
    try:
        features, prior, _ = unpacked(shown.packed, None)
    except BadInput as error:
        yield str(error)
        return
    if not len(features) == len(prior) == len(shown.ids) == len(set(shown.ids)):
        yield f"{len(shown.ids)} ids for {len(features)} documents"


def _of_feedback(record: Record, said: Feedback, seen: Seen) -> Iterator[str]:
    name = record.impression
    if name is None:
        yield "feedback on nothing"
        return
    clicked = seen.clicked.setdefault(name, set())
    if said.effect == "counted" and name not in seen.shown:
        yield "feedback counted before its impression"
    if name in seen.final:
        yield "feedback after the last word"
    if clicked & set(said.clicks):
        yield f"a click on {min(clicked & set(said.clicks))!r} counted twice"
    if name in seen.shown and not set(said.clicks) <= set(seen.shown[name]):
        yield "a click on what was not shown"
    clicked.update(said.clicks)
    if said.final:
        seen.final.add(name)
