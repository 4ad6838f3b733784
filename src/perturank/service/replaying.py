"""Models rebuilt from the log alone, to the very same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perturank import storage
from perturank.core import Ranker
from perturank.errors import BadInput
from perturank.service import snapshots
from perturank.service.entries import Snapshot
from perturank.service.log import Log
from perturank.service.refusals import NotKnown
from perturank.service.spec import Spec
from perturank.service.state import Recall, State


@dataclass
class Report:
    """What a replay went through; `differs` names the first version whose bits were not met."""

    state: State
    checked: int = 0
    differs: int | None = None
    newest: Snapshot | None = None
    at_newest: Ranker | None = None  # batches may follow a version that is not published yet

    @property
    def ranker(self) -> Ranker:
        """The rebuilt ranker."""
        assert self.state.ranker is not None
        return self.state.ranker


def recalled(log: Log) -> Recall:
    """Return how a state looks things up in this log."""

    def version(model: str, number: int) -> Ranker:
        return rebuilt(log, model, at=published_at(log, model, number)).state.ranker or _gone(model, number)

    def blob(name: str) -> Ranker:
        content = log.stored(name)
        if content is None:
            raise BadInput(f"the imported ranker {name} is missing from the log", "restore the log from a backup")
        return snapshots.ranker_of(content, name)[0]

    return Recall(version, blob)


def _gone(model: str, number: int) -> Ranker:
    raise NotKnown(f"model {model!r} has no version {number} any more", "list its versions")


def published_at(log: Log, model: str, version: int) -> int:
    """Return the position at which a version was published."""
    for record in reversed(log.rare()):
        if record.model == model and isinstance(record.entry, Snapshot) and record.entry.version == version:
            return record.position
    raise NotKnown(f"model {model!r} has no version {version}", "list its versions")


def rebuilt(
    log: Log,
    model: str,
    *,
    at: int | None = None,
    instead: Spec | None = None,
    on_record: Callable[[int], None] | None = None,
) -> Report:
    """Return what the records up to a position make of a model, every published version on the way compared."""
    state = State(model, recalled(log), instead)
    report = Report(state)
    for record in log.read(through=at, model=model):
        if isinstance(record.entry, Snapshot):
            _compare(report, record.entry)
        state.take(record)
        if on_record is not None:
            on_record(record.position)
    if state.ranker is None:
        raise NotKnown(f"the log knows no model {model!r} at position {log.tail() if at is None else at}", "check both")
    return report


def _compare(report: Report, published: Snapshot) -> None:
    state = report.state
    if state.ranker is None or state.instead is not None or published.generation != state.generation:
        return
    report.checked += 1
    report.newest, report.at_newest = published, state.ranker
    same = snapshots.digest(state.ranker) == published.digest and state.learned == published.learned
    if not same and report.differs is None:
        report.differs = published.version


def same_as_stored(log: Log, report: Report) -> bool:
    """Return whether the newest version's stored bytes hold the rebuilt arrays, bit for bit."""
    newest, rebuilt_then = report.newest, report.at_newest
    if newest is None or rebuilt_then is None:
        return True
    name = snapshots.version_name(report.state.model, newest.version)
    content = log.stored(name)
    if content is None:
        return False
    stored = storage.unpacked(content, name)[0]
    mine = storage.unpacked(snapshots.version_bytes(rebuilt_then), "the rebuilt ranker")[0]
    return stored.keys() == mine.keys() and all(
        mine[key].dtype == stored[key].dtype
        and mine[key].shape == stored[key].shape
        and mine[key].tobytes() == stored[key].tobytes()
        for key in mine
    )
