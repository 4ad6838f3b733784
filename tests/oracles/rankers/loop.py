"""One round: a query is ranked, a user clicks, the ranker learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

PLACES = 10


class PlainRanker(Protocol):
    """A ranker that changes as it learns; documents are rows of x [V, d], lists are row numbers, best first."""

    def rank(self, x: np.ndarray, k: int) -> list[int]: ...

    def learn(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> None: ...


def clicked(
    grades: Sequence[int] | np.ndarray,
    p_click: Sequence[float] | np.ndarray,
    p_stop: Sequence[float] | np.ndarray,
    rng: np.random.Generator,
) -> list[bool]:
    """Return the clicks of a user who may stop at every examined document (table:click)."""
    clicks = [False] * len(grades)
    for place, grade in enumerate(grades):
        clicks[place] = bool(rng.random() < p_click[grade])
        if rng.random() < p_stop[grade]:
            break
    return clicks


def one_round(
    ranker: PlainRanker,
    x: np.ndarray,
    grades: np.ndarray,
    user: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
    k: int = PLACES,
) -> list[int]:
    """Return the list shown for this query, after the ranker has learned from its clicks."""
    shown = ranker.rank(x, k)
    ranker.learn(x, shown, clicked(grades[shown], *user, rng))
    return shown
