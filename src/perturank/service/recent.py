"""The last queries of each model, in this process's memory alone: to look into, and to sample."""

from __future__ import annotations

import itertools
import time
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from perturank.service.refusals import NotKnown

MOST = 25  # of one model
MOST_BYTES = 4_000_000  # of one model's features


class Asked(NamedTuple):
    """A query as it was ranked: features are scaled."""

    number: int
    at: int  # milliseconds since 1970
    query: str | None
    ids: list[str]
    features: np.ndarray
    prior: np.ndarray | None


@dataclass(slots=True)
class _Held:
    """The queries of one model; one object, so that another thread drops all of it or nothing."""

    asked: deque[Asked] = field(default_factory=deque)
    n_bytes: int = 0


class Recent:
    """Keeps the last queries; noting one costs a microsecond."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._numbers = itertools.count(1)

    def note(
        self, model: str, query: str | None, ids: list[str], features: np.ndarray, prior: np.ndarray | None
    ) -> None:
        """Remember a query, unless it alone would fill the room."""
        if features.nbytes > MOST_BYTES:
            return
        held = self._held.get(model)
        if held is None:
            held = self._held.setdefault(model, _Held())
        held.asked.append(Asked(next(self._numbers), time.time_ns() // 1_000_000, query, ids, features, prior))
        held.n_bytes += features.nbytes
        while held.n_bytes > MOST_BYTES or len(held.asked) > MOST:
            held.n_bytes -= held.asked.popleft().features.nbytes

    def of(self, model: str) -> list[Asked]:
        """Return the model's queries, newest first."""
        held = self._held.get(model)
        return [] if held is None else list(held.asked)[::-1]

    def get(self, model: str, number: int) -> Asked:
        """Return one of them."""
        found = next((each for each in self.of(model) if each.number == number), None)
        if found is None:
            raise NotKnown(f"query {number} is not remembered any more", "pick a newer one, or send its documents")
        return found

    def forget(self, model: str) -> None:
        """Drop what is remembered of a model."""
        self._held.pop(model, None)
