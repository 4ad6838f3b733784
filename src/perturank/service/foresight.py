"""Compiling ahead: a history that grows needs a new program, and clicks should not wait for it."""

from __future__ import annotations

import threading

from perturank import machine
from perturank.core import Ranker
from perturank.service import lessons
from perturank.service.learner import Learner


class Foresight:
    """Compiles, in a thread of its own, the program that a model will need next."""

    def __init__(self) -> None:
        self._prepared: set[object] = set()
        self._next: dict[tuple[str, int], int] = {}  # by model: how much it must have learned before another look
        self._thread: threading.Thread | None = None

    def look(self, learner: Learner) -> None:
        """Begin to compile if something is foreseen and nothing is being compiled."""
        if self._thread is not None and self._thread.is_alive():
            return
        for state in learner.states.values():
            life = state.model, state.generation
            if state.spec is None or state.ranker is None or state.learned < self._next.get(life, 0):
                continue
            self._next[life] = state.learned + lessons.ahead(state.learned) // 2
            ranker = lessons.foreseen(state.ranker, state.learned, state.spec.places)
            kind = (lessons.shapes(ranker), state.spec.ranker, str(state.spec.settings), state.spec.places)
            if kind not in self._prepared:
                self._prepared.add(kind)
                self._begin(ranker, state.spec.seed, state.spec.places)
                return

    def _begin(self, ranker: Ranker, seed: int, places: int) -> None:
        self._thread = threading.Thread(target=_prepare, args=(ranker, seed, places), daemon=True)
        self._thread.start()


def _prepare(ranker: Ranker, seed: int, places: int) -> None:
    lessons.prepare(ranker, seed, places)
    machine.give_memory_back()
