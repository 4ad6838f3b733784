"""How far the learner is, told to the sums beside the log; nothing here decides what is learned."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from perturank.service.counting import LEARNED, UPDATE_SECONDS, UPDATES
from perturank.service.entries import Closed, Feedback, Record
from perturank.service.learner.state import State
from perturank.service.log import Transaction


class Progress:
    """Follows what the learner reads, learns and publishes."""

    def __init__(self, states: Iterable[State]) -> None:
        self._at = 0  # of the last record read
        # of each model, the records that completed something of which the sums have not been told: position, time
        self._untold: dict[str, deque[tuple[int, int]]] = {}
        self._learned = {state.model: (state.generation, state.learned) for state in states}
        self._seconds = 0.0

    def read(self, record: Record) -> None:
        """Note a record."""
        self._at = record.at
        if completes(record):
            self._untold.setdefault(record.model, deque()).append((record.position, record.at))

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Time the block, in which a step learns."""
        began = time.perf_counter()
        yield
        self._seconds = time.perf_counter() - began

    def published(self, transaction: Transaction, state: State, n_in_step: int) -> None:
        """Tell of a new version; so many impressions of all models were learned in this step."""
        model = state.model
        n = state.learned_since(*self._learned.get(model, (0, 0)))
        self._learned[model] = state.generation, state.learned
        seconds = self._seconds * n / max(n_in_step, 1)
        transaction.tally.add(model, {LEARNED: n, UPDATES: 1, UPDATE_SECONDS: seconds})
        rest = state.queue[0].at - 1 if state.queue else state.batched  # what one record completed may be two batches
        self._reached(transaction, model, min(state.batched, rest))

    def _reached(self, transaction: Transaction, model: str, through: int) -> None:
        untold = self._untold.get(model, deque())
        while untold and untold[0][0] <= through:
            untold.popleft()
        transaction.tally.reached(model, through, untold[0][1] if untold else self._at)

    def idle(self, states: Iterable[State]) -> list[str]:
        """Return the models of which something was read that had nothing to learn in it; deleted ones have no sums."""
        found = []
        for state in states:
            if state.spec is None:
                self._untold.pop(state.model, None)
            elif self._untold.get(state.model) and not state.queue and not state.unpublished:
                found.append(state.model)
        return found

    def passed(self, transaction: Transaction, model: str) -> None:
        """Tell that everything read of a model is learned, or was nothing to learn."""
        self._reached(transaction, model, self._untold[model][-1][0])


def completes(record: Record) -> bool:
    """Return whether a record may complete impressions."""
    entry = record.entry
    return isinstance(entry, Closed) or (isinstance(entry, Feedback) and entry.final and entry.effect != "late")
