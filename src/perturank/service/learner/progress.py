"""How far the learner is, told to the sums beside the log; nothing here decides what is learned."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from perturank.service.learner.state import State
from perturank.service.log import Transaction
from perturank.service.log.records import Closed, Feedback, Record
from perturank.service.telemetry.counters import LEARNED, UPDATE_SECONDS, UPDATES


class Progress:
    """Follows what the learner reads, learns and publishes."""

    def __init__(self, states: Iterable[State]) -> None:
        self._at = 0  # of the last record read
        # Of each model, the records that complete impressions and that no version contains yet: position, time.
        self._waiting: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
        self._learned = {state.model: (state.generation, state.learned) for state in states}
        self._seconds = 0.0

    def read(self, record: Record) -> None:
        """Note a record."""
        self._at, entry = record.at, record.entry
        if isinstance(entry, Closed) or (isinstance(entry, Feedback) and entry.final and entry.effect != "late"):
            self._waiting[record.model].append((record.position, record.at))

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Time the block, in which a step learns."""
        began = time.perf_counter()
        yield
        self._seconds = time.perf_counter() - began

    def publish(self, transaction: Transaction, state: State, n_in_step: int) -> None:
        """Count a new version; so many impressions of all models were learned in this step."""
        n = state.learned_since(*self._learned.get(state.model, (0, 0)))
        self._learned[state.model] = state.generation, state.learned
        seconds = self._seconds * n / max(n_in_step, 1)
        transaction.tally.add(state.model, {LEARNED: n, UPDATES: 1, UPDATE_SECONDS: seconds})
        rest = state.queue[0].at - 1 if state.queue else state.batched  # what one record completed may be two batches
        self._reach(transaction, state.model, min(state.batched, rest))

    def idle(self, states: Iterable[State]) -> list[str]:
        """Return the models of which something was read that had nothing to learn in it; deleted ones have no sums."""
        found = [state for state in states if self._waiting[state.model] and not state.queue and not state.unpublished]
        for state in found:
            if state.spec is None:
                self._waiting[state.model].clear()
        return [state.model for state in found if state.spec is not None]

    def pass_over(self, transaction: Transaction, model: str) -> None:
        """Note that everything read of a model is learned, or was nothing to learn."""
        self._reach(transaction, model, self._waiting[model][-1][0])

    def _reach(self, transaction: Transaction, model: str, through: int) -> None:
        waiting = self._waiting[model]
        while waiting and waiting[0][0] <= through:
            waiting.popleft()
        transaction.tally.reached[model] = (through, waiting[0][1] if waiting else self._at)
