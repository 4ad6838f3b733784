"""The last queries of each model, in this process's memory alone: to look into, and to sample."""

from __future__ import annotations

import itertools
import time
from collections import deque
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from perturank.service.log.refusals import NotKnown

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


class Recent:
    """Keeps the last queries."""

    def __init__(self) -> None:
        self._queries: dict[str, deque[Asked]] = {}
        self._numbers = itertools.count(1)

    def note(
        self, model: str, query: str | None, ids: list[str], features: np.ndarray, prior: np.ndarray | None
    ) -> None:
        """Remember a query, unless it alone would fill the room."""
        if features.nbytes > MOST_BYTES:
            return
        held = self._queries.get(model) or self._queries.setdefault(model, deque(maxlen=MOST))
        held.append(Asked(next(self._numbers), time.time_ns() // 1_000_000, query, ids, features, prior))
        while sum(map(attrgetter("features.nbytes"), held)) > MOST_BYTES:
            held.popleft()

    def of(self, model: str) -> list[Asked]:
        """Return the model's queries, newest first."""
        return list(self._queries.get(model, ()))[::-1]

    def get(self, model: str, number: int) -> Asked:
        """Return one of them."""
        for each in self.of(model):
            if each.number == number:
                return each
        raise NotKnown(f"query {number} is not remembered any more", "pick a newer one, or send its documents")

    def forget(self, model: str) -> None:
        """Drop what is remembered of a model."""
        self._queries.pop(model, None)
