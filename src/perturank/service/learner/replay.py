"""Replay: models rebuilt from the log alone, to the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from perturank import storage
from perturank.core import Ranker
from perturank.errors import BadInput
from perturank.service.learner import checkpoint, unlearning
from perturank.service.learner.state import Recall, State
from perturank.service.log import Log, snapshots
from perturank.service.log.records import Impression, RolledBack, Snapshot
from perturank.service.log.refusals import Missing, NotKnown, NotReady
from perturank.service.log.spec import Spec

T = TypeVar("T")
TRIES = 5  # a base is seldom stored, and the second read is shorter


@dataclass
class Report:
    """The result of a replay; `differs` is the first version whose bits differ."""

    state: State
    begins: int = 0  # position of the base; 0: the first record
    checked: int = 0
    differs: int | None = None
    newest: Snapshot | None = None
    at_newest: Ranker | None = None  # batches may follow a version that is not published yet

    @property
    def ranker(self) -> Ranker:
        """The rebuilt ranker."""
        assert self.state.ranker is not None
        return self.state.ranker


def recall_from(log: Log) -> Recall:
    """Return how a state looks things up in this log."""

    def shown(positions: Sequence[int]) -> list[Impression]:
        found = {record.position: record.entry for record in log.at(positions)}
        lists = [entry for entry in map(found.get, positions) if isinstance(entry, Impression)]
        if len(lists) < len(positions):
            raise Missing("impressions were taken out of the log before they were learned", "begin again")
        return lists

    def targets(model: str, after: int) -> dict[int, int]:
        backs = log.all_of(model, RolledBack, after)
        return {back.entry.version: back.position for back in backs if isinstance(back.entry, RolledBack)}

    def version(model: str, number: int, kept: dict[int, Ranker]) -> Ranker:
        return _rebuild_version(log, model, number, kept)

    def blob(name: str) -> Ranker:
        content = log.stored(name)
        if content is None:
            raise BadInput(f"the imported ranker {name} is missing from the log", "restore the log from a backup")
        return snapshots.ranker_of(content, name)[0]

    def remaining(model: str, position: int, instead: Spec | None) -> State:
        return unlearning.remaining(log, model, position, recall, instead)

    recall = Recall(shown, targets, version, blob, remaining, log.secret)
    return recall


def retry_if_compacted(log: Log, model: str, read: Callable[[], T]) -> T:
    """Return what `read` returns; call it again if the model's base changed meanwhile.

    A base is in the log before records are deleted for it. So a reader that finds the same base before and after
    reading has missed nothing.
    """
    for _ in range(TRIES):
        before = checkpoint.base_of(log, model)
        try:
            found = read()
        except BadInput:
            if checkpoint.base_of(log, model) == before:
                raise
            continue
        if checkpoint.base_of(log, model) == before:
            return found
    raise NotReady(f"the log of model {model!r} was compacted again and again while it was read", "try it again later")


def rebuild_version(log: Log, model: str, version: int) -> Ranker:
    """Return a version with all that learning needs, from the nearest stored state before it."""
    return retry_if_compacted(log, model, lambda: _rebuild_version(log, model, version, {}))


def _rebuild_version(log: Log, model: str, version: int, kept: dict[int, Ranker]) -> Ranker:
    """Return a version; `kept` has versions that were met on the way, and gets more of them.

    A roll-back on the way may lead to a version before the state where this began, which is then rebuilt from an
    earlier state. All share `kept`, so each version is rebuilt at most once.
    """
    whole = checkpoint.whole_version(log, model, version)
    if whole is not None:
        return whole
    found = snapshots.found(log, model, version)
    if found is None:
        raise NotKnown(f"model {model!r} has no version {version}", "list its versions")
    at, published = found.position, found.snapshot
    base = checkpoint.origin(log, model, recall_from(log))
    if base.ranker is not None and base.at > at and _is(base, published):
        return base.ranker
    state = _follow(log, model, at, kept)
    if state.ranker is None or state.at > at or not _is(state, published):
        remedy = f"versions from {base.version} on can be" if base.version else "a newer one can be"
        raise NotKnown(f"version {version} of model {model!r} cannot be rebuilt any more", remedy)
    return state.ranker


def _is(state: State, published: Snapshot) -> bool:
    """Return whether nothing was learned since this version."""
    same = state.version == published.version and state.generation == published.generation
    return same and not state.unpublished


def follow(log: Log, model: str, at: int) -> State:
    """Return the state after all records of a model up to a position, from the nearest stored one."""
    return retry_if_compacted(log, model, lambda: _follow(log, model, at, {}))


def _follow(log: Log, model: str, at: int, kept: dict[int, Ranker]) -> State:
    state = checkpoint.nearest(log, model, recall_from(log), at)
    kept.update(state.kept)
    state.kept = kept
    for record in log.read(after=state.at, up_to=at, model=model):
        state.take(record)
    return state


def rebuild(
    log: Log,
    model: str,
    *,
    at: int | None = None,
    instead: Spec | None = None,
    on_record: Callable[[int], None] | None = None,
) -> Report:
    """Return the model after the records up to a position, and compare every published version on the way.

    It begins at the base; another ranker has no base, and begins with the first record that is left.
    """
    return retry_if_compacted(log, model, lambda: _rebuild(log, model, at, instead, on_record))


def _rebuild(
    log: Log, model: str, at: int | None, instead: Spec | None, on_record: Callable[[int], None] | None
) -> Report:
    recall = recall_from(log)
    state = checkpoint.origin(log, model, recall, at) if instead is None else State(model, recall, instead)
    if at is not None and at < state.at:
        raise NotKnown(
            f"position {at} lies before the base of model {model!r}", f"it can be replayed from {state.at} on"
        )
    report = Report(state, state.at)
    _compare_base(log, report)
    for record in log.read(after=state.at, up_to=at, model=model):
        if isinstance(record.entry, Snapshot):
            _compare(report, record.entry)
        state.take(record)
        if on_record is not None:
            on_record(record.position)
    if state.ranker is None:
        raise NotKnown(f"the log knows no model {model!r} at position {log.tail() if at is None else at}", "check both")
    return report


def _compare_base(log: Log, report: Report) -> None:
    """Compare the base with the version that was published before it, where nothing was learned in between."""
    if report.state.ranker is not None and not report.state.unpublished:
        before = snapshots.found(log, report.state.model, report.state.version)
        if before is not None:
            _compare(report, before.snapshot)


def _compare(report: Report, published: Snapshot) -> None:
    state = report.state
    if state.ranker is None or state.instead is not None or published.generation != state.generation:
        return
    report.checked += 1
    report.newest, report.at_newest = published, state.ranker
    same = snapshots.digest(state.ranker) == published.digest and state.learned == published.learned
    if not same and report.differs is None:
        report.differs = published.version


def matches_stored(log: Log, report: Report) -> bool:
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
