"""How the game goes: reciprocal ranks, success and clicked places, as curves of a bounded number of points.

The reciprocal ranks of known items are means over the last 200 searches, any of which are equally hard for BM25.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ENDS = 200  # searches at the beginning and at the end that are compared
MOST_POINTS = 64
FIRST_WIDTH = 5  # searches a point: a person sees their own clicks in a curve
FEWEST = 50  # known items of which a mean says something
BM25, LEARNED, BESIDE = "bm25", "learned", "beside"
CURVES = (BM25, LEARNED, BESIDE, "clicked place", "reciprocal clicked place", "uncertain")


def reciprocal_rank(shown: list[str], wanted: str) -> float:
    """Return 1 / the place of the wanted document; 0 where it is not in the list.

    >>> reciprocal_rank(["a", "b"], "b"), reciprocal_rank(["a", "b"], "c")
    (0.5, 0.0)
    """
    return 1 / (shown.index(wanted) + 1) if wanted in shown else 0.0


class Curves:
    """Means over equal stretches of searches; when there are too many, two neighbours become one."""

    def __init__(self) -> None:
        self.width, self.n = FIRST_WIDTH, 0
        self._sums = np.zeros((MOST_POINTS, len(CURVES)))
        self._counts = np.zeros((MOST_POINTS, len(CURVES)))

    def add(self, values: dict[str, float]) -> None:
        """Take in what one search has shown; a curve that it says nothing about stays as it is."""
        if self.n == self.width * MOST_POINTS:
            self._sums, self._counts, self.width = _halved(self._sums), _halved(self._counts), 2 * self.width
        for name, value in values.items():
            at = self.n // self.width, CURVES.index(name)
            self._sums[at] += value
            self._counts[at] += 1
        self.n += 1

    def forget(self, name: str) -> None:
        """Take a curve back to its beginning."""
        self._sums[:, CURVES.index(name)] = self._counts[:, CURVES.index(name)] = 0

    def points(self) -> dict[str, list[float | None]]:
        """Return each curve's means; None where nothing is known."""
        used = len(self.ends())
        with np.errstate(invalid="ignore"):
            means = self._sums[:used] / np.where(self._counts[:used] > 0, self._counts[:used], np.nan)
        return {
            name: [None if np.isnan(value) else round(float(value), 4) for value in means[:, column]]
            for column, name in enumerate(CURVES)
        }

    def ends(self) -> list[int]:
        """Return how many searches there had been at each point's end; one that has hardly begun is left out."""
        whole, begun = divmod(self.n, self.width)
        ends = [(i + 1) * self.width for i in range(whole)]
        return [*ends, self.n] if begun > self.width // 2 or (begun and not ends) else ends


def _halved(table: np.ndarray) -> np.ndarray:
    merged = table[0::2] + table[1::2]
    return np.concatenate([merged, np.zeros_like(merged)])


@dataclass
class Tally:
    """All searches so far; known items count by where the wanted document stood."""

    curves: Curves = field(default_factory=Curves)
    first: list[float] = field(default_factory=list)
    last: dict[str, deque[float]] = field(
        default_factory=lambda: {name: deque(maxlen=ENDS) for name in (BM25, LEARNED, BESIDE)}
    )
    sum_bm25: float = 0.0
    searches: int = 0  # for known items

    def known_item(self, ranks: dict[str, float], more: dict[str, float]) -> None:
        """Take in a search whose wanted document is known: reciprocal ranks by list, and what else was seen."""
        self.searches += 1
        self.sum_bm25 += ranks[BM25]
        if len(self.first) < ENDS:
            self.first.append(ranks[LEARNED])
        for name, value in ranks.items():
            self.last[name].append(value)
        running = {name: sum(last) / len(last) for name, last in self.last.items() if name in ranks}
        self.curves.add((running if self.searches >= FEWEST else {}) | more)

    def forget_beside(self) -> None:
        """Begin anew with the list beside: another ranker's searches say nothing about it."""
        self.last[BESIDE].clear()
        self.curves.forget(BESIDE)

    def outcome(self) -> dict[str, Any]:
        """Return the mean reciprocal ranks: BM25's own, and the learning ranker's at both ends."""
        return {
            "searches": self.searches,
            "mrr_bm25": _mean([self.sum_bm25], self.searches),
            "mrr_first": _mean(self.first, len(self.first)),
            "mrr_last": _mean(self.last[LEARNED], len(self.last[LEARNED])),
        }

    def success(self) -> dict[str, float | None]:
        """Return the share of the last searches in which each list had the wanted document first."""
        return {name: _mean([value == 1 for value in last], len(last)) for name, last in self.last.items()}


def clicked_places(shown: list[str], clicked: list[str]) -> dict[str, float]:
    """Return the mean place of the clicks, and the reciprocal of the first; nothing without a click."""
    places = sorted(shown.index(path) + 1 for path in clicked)
    if not places:
        return {}
    return {"clicked place": float(np.mean(places)), "reciprocal clicked place": 1 / places[0]}


def uncertain_pairs(share: float | None) -> dict[str, float]:
    """Return the share of pairs without a certain order; nothing where the ranker knows of none."""
    return {} if share is None else {"uncertain": share}


def _mean(values: Any, n: int) -> float | None:
    return round(float(sum(values)) / n, 4) if n else None
