"""Unlearning a source: a model is learned anew from the records that are left.

Scales, batches, drifts and what the limits skipped are no part of what is left: the learner writes them anew, as one
does that begins with a log which never held the source. What an operator decided stays: changes, imports, roll-backs.
"""

from __future__ import annotations

from collections import deque
from copy import copy

from perturank.service.learner.state import Recall, State
from perturank.service.log import Log
from perturank.service.log.erasure import erased_up_to
from perturank.service.log.records import (
    Batch,
    Changed,
    Compacted,
    Drifted,
    Erased,
    Imported,
    RolledBack,
    Scaled,
    Snapshot,
)
from perturank.service.log.refusals import NotKnown
from perturank.service.log.spec import Spec


def remaining(log: Log, model: str, position: int, recall: Recall, instead: Spec | None = None) -> State:
    """Return a state that has taken the present generation's records up to a position, and has learned nothing.

    Impressions of the sources that are erased up to there are left out. They may be deleted or not: the result is the
    same.
    """
    begins = _generation(log, model, position) - 1
    erased = erased_up_to(log, model, position)
    gone = {record.impression for record in log.read(begins, position, model) if erased.own(record)}  # never None
    state = State(model, recall, instead, at=begins)
    targets, versions, learned = recall.targets(model, begins), dict[int, State](), 0
    for record in log.read(begins, position - 1, model):
        match record.entry:
            case Batch(through=through):
                learned = through
            case Snapshot(version=version) if version in targets:
                versions[version] = _at_version(state, learned)
            case RolledBack(version=version) if version in versions:
                _go_back(state, versions[version], record.position, learned)
            case Imported():
                state.queue = deque(each for each in state.queue if each.at > learned)
                state.take(record)
            case Snapshot() | RolledBack() | Scaled() | Drifted() | Compacted() | Erased():
                continue
            case _:
                if record.impression not in gone and not erased.name(record):
                    state.take(record)
    return state


def _generation(log: Log, model: str, position: int) -> int:
    """Return the position at which the generation began that learned at a position."""
    for record in log.newest(model, Changed, 1, position):
        if isinstance(record.entry, Changed):
            return record.entry.generation or record.position
    raise NotKnown(f"the log knows no model {model!r} at position {position}", "check both")


def _at_version(state: State, learned: int) -> State:
    """Return a copy that has what a version had learned: all that was complete up to a position."""
    then = copy(state)
    then.queue = deque(each for each in state.queue if each.at <= learned)
    then.shown_first, then.layouts = list(state.shown_first), list(state.layouts)
    return then


def _go_back(state: State, version: State, position: int, learned: int) -> None:
    """Drop what was learned since a version; what waits to be learned stays."""
    assert state.spec is not None
    assert version.spec is not None
    assert version.ranker is not None
    state.queue = deque([*version.queue, *(each for each in state.queue if each.at > learned)])
    state.ranker, state.is_scale_final = state.spec.adapt(version.ranker), version.is_scale_final
    if not state.shown_first:  # an earlier generation was restored, and forgot its first impressions when it ended
        state.shown_since, state.shown_first = version.shown_since, list(version.shown_first)
        changed = version.spec.layout != state.spec.layout
        state.layouts = [*version.layouts, *([(position, version.spec.layout)] if changed else [])]
