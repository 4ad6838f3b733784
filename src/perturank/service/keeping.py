"""What a learner does beside learning: it marks states, makes one the base when it is old enough, and sweeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perturank.service import changing, compacting, resuming, snapshots
from perturank.service.compacting import Guard
from perturank.service.log import Log
from perturank.service.retention import Retention
from perturank.service.state import State

SECONDS_TO_SWEEP = 0.05  # of a look: by pages of a few milliseconds, between which others write
MARKS = 4  # states stored within the span that is kept: the base is at most this share of it older than asked for


@dataclass(frozen=True)
class Mark:
    """A stored state that may become the base."""

    version: int
    when: int
    learned: int
    generation: int

    @classmethod
    def of(cls, said: Any) -> Mark:
        """Return the mark of a stored state's header."""
        return cls(said["version"], said["when"], said["learned"], said["generation"])

    def behind(self, state: State) -> tuple[int, int]:
        """Return how many milliseconds and impressions the state is ahead."""
        return state.when - self.when, state.learned_since(self.generation, self.learned)


class Keeper:
    """Works a little at each look, so that learning never waits long; `guard` stops one that has lost its place."""

    def __init__(self, log: Log, retention: Retention | None, guard: Guard) -> None:
        self._log, self._retention, self._guard = log, retention, guard
        self._marks: dict[str, list[Mark]] = {}
        self._gone: dict[str, int] = {}  # deleted models that have been seen to, and where each ended
        self._until = 0.0
        self._sweeps: dict[str, tuple[tuple[int, int], Iterator[int]]] = {}  # by model, with the base that it is for

    def look(self, states: list[State]) -> bool:
        """Do what is next for each of the models, all of which have read the log; return whether there is more."""
        now = max((state.when for state in states), default=0)
        self._until = time.monotonic() + SECONDS_TO_SWEEP
        more = [self._kept(state, now) for state in states]
        return any(more)

    def _kept(self, state: State, now: int) -> bool:
        if state.erased > state.based and not state.unpublished:
            content = None if state.ranker is None else resuming.stored(state)
            compacting.based(self._log, state.model, content, state.at, keeps=True, guard=self._guard)
            return True
        if self._retention is not None and state.ranker is not None and not state.unpublished and state.version > 0:
            self._mark(state, self._retention)
        if self._is_long_gone(state, now):
            self._gone[state.model] = state.generation
            self._sweeps.pop(state.model, None)
            found = compacting.based(self._log, state.model, None, state.generation, guard=self._guard)
            return found is not None
        return self._swept(state)

    def _is_long_gone(self, state: State, now: int) -> bool:
        """Return whether the model was deleted so long ago that its records need not be kept."""
        is_known = state.generation == self._gone.get(state.model, 0)
        if self._retention is None or state.spec is not None or is_known or state.erased > state.based:
            return False
        return self._retention.lets_go(now - state.when, self._retention.impressions or 0)

    def _swept(self, state: State) -> bool:
        present = state.based, state.based_through
        base, pages = self._sweeps.get(state.model, ((0, 0), iter(())))
        if base != present:
            newest = resuming.base_of(self._log, state.model)
            if newest is not None and newest.at > state.at:
                return True  # what came before it is read first
            base, pages = present, compacting.sweep(self._log, state.model, self._guard)
        self._sweeps[state.model] = base, pages
        while next(pages, None) is not None:
            if time.monotonic() >= self._until:
                return True
        return False

    def _mark(self, state: State, retention: Retention) -> None:
        """Store the state if the last mark is far behind, and make the newest mark that is old enough the base."""
        marks = self._known(state)
        share = Retention(retention.seconds and retention.seconds / MARKS, _share(retention.impressions))
        if marks and not share.lets_go(*marks[-1].behind(state)):
            return
        with self._log.transaction() as transaction:
            self._guard(transaction)
            if changing.current(transaction, state.model) is None:
                return  # deleted meanwhile, with all that was stored for it
            transaction.store(snapshots.mark_name(state.model, state.version), resuming.stored(state))
        marks.append(Mark(state.version, state.when, state.learned, state.generation))
        old = [mark for mark in marks if retention.lets_go(*mark.behind(state))]
        for mark in reversed(old):
            content = self._log.stored(snapshots.mark_name(state.model, mark.version))
            if content is not None and compacting.based(self._log, state.model, content, 0, guard=self._guard):
                self._marks[state.model] = [each for each in marks if each.version > mark.version]
                return
        compacting.raised(self._log, state.model, retention, self._guard)  # an erasing leaves no mark before its base

    def _known(self, state: State) -> list[Mark]:
        """Return the marks that are stored, oldest first."""
        if state.model not in self._marks:
            names = self._log.names(snapshots.mark_prefix(state.model))
            contents = [(name, self._log.stored(name)) for name in names]
            found = [Mark.of(resuming.header(content, name)) for name, content in contents if content is not None]
            self._marks[state.model] = found
        return self._marks[state.model]


def _share(impressions: int | None) -> int | None:
    return None if impressions is None else max(1, impressions // MARKS)
