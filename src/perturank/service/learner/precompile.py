"""Compiling ahead: a new model and a history that grows need a new program, and clicks should not wait for it."""

from __future__ import annotations

import threading

from perturank import machine
from perturank.core import Ranker
from perturank.service.learner import update
from perturank.service.learner.learner import Learner
from perturank.service.learner.state import State

Kind = tuple[str, str, int, int]


class Precompiler:
    """Compiles, in a thread of its own, the program that a model will need next."""

    def __init__(self) -> None:
        self._prepared: set[object] = set()
        self._next: dict[tuple[str, int], int] = {}  # by model: how much it must have learned before another look
        self._thread: threading.Thread | None = None
        self._awaited: Kind | None = None  # whose very next batch needs what is being compiled

    def holds(self, state: State) -> bool:
        """Return whether the model's next batch should wait: to compile its program twice at once takes twice as long.

        Other models learn meanwhile.
        """
        return self._is_busy and self._awaited is not None and self._awaited == _kind(state)

    @property
    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def look(self, learner: Learner) -> None:
        """Begin to compile if something is foreseen and nothing is being compiled."""
        if self._is_busy:
            return
        for state in learner.states.values():
            life = state.model, state.generation
            if state.spec is None or state.ranker is None or state.learned < self._next.get(life, 0):
                continue
            self._next[life] = state.learned + update.n_ahead(state.learned) // 2
            ranker = update.with_room_ahead(state.ranker, state.learned, state.spec.places)
            program = update.shapes(ranker), _kind(state)
            if program not in self._prepared:
                self._prepared.add(program)
                needed = update.with_room(state.ranker, 1, state.learned, state.spec.places)
                self._awaited = _kind(state) if update.shapes(needed) == update.shapes(ranker) else None
                self._begin(ranker, state.spec.seed, state.spec.places)
                return

    def _begin(self, ranker: Ranker, seed: int, places: int) -> None:
        self._thread = threading.Thread(target=_prepare, args=(ranker, seed, places), daemon=True)
        self._thread.start()


def _kind(state: State) -> Kind | None:
    """Return what decides, beside the size of the history, which program learns."""
    spec = state.spec
    return None if spec is None else (spec.ranker, str(spec.settings), spec.n_features, spec.places)


def _prepare(ranker: Ranker, seed: int, places: int) -> None:
    update.prepare(ranker, seed, places)
    machine.give_memory_back()
