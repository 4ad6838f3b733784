"""What the page shows beside the results: curves, lessons, the effect of the last click, and who is searching.

The reciprocal ranks of known items are means over the last 200 searches, any of which are equally hard for BM25.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from perturank.parts.preferences import preferred
from perturank.play.search_box import PlaceInList

ENDS = 200  # searches at the beginning and at the end that are compared
MOST_POINTS = 64
KEPT_LESSONS = 8
NO_EFFECT = "what the last click did is not known"
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
class Score:
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


@dataclass(frozen=True)
class Lesson:
    """One preference, and who gave it."""

    winner: str
    loser: str
    query: str
    who: str


def lessons(
    settings: Mapping[str, Any], shown: Sequence[str], clicked: Collection[str], query: str, who: str
) -> list[Lesson]:
    """Return the preferences that a ranker of these settings infers from these clicks, by the very rule that it uses.

    Rankers that know no pairs (DBGD, MGD, random lists) infer none.
    """
    if "examined_beyond" not in settings:
        return []
    clicks = jnp.asarray([path in clicked for path in shown])
    beyond, inclusion = settings["examined_beyond"], settings.get("inclusion", "paper")
    wins = preferred(clicks, jnp.ones(len(shown), bool), beyond, inclusion)
    return [Lesson(shown[i], shown[j], query, who) for i, j in np.argwhere(np.asarray(wins))]


@dataclass(frozen=True)
class Effect:
    """What one click did to its own query: the best estimate's list before and after it was learned."""

    query: str
    clicked: str
    over: str | None  # what stood above it, or next to it
    before: PlaceInList
    after: PlaceInList

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        lead = None if self.over is None else [each.lead(self.clicked, self.over) for each in (self.before, self.after)]
        return {
            "query": self.query,
            "clicked": self.clicked,
            "over": self.over,
            "places": [each.place(self.clicked) for each in (self.before, self.after)],
            "versions": [self.before.version, self.after.version],
            "lists": [self.before.paths, self.after.paths],
            "lead": lead,
            "uncertain": [self.before.uncertain, self.after.uncertain],
        }


@dataclass
class Board:
    """The state of the game, counted up with every change."""

    tally: Score = field(default_factory=Score)
    lessons: deque[Lesson] = field(default_factory=lambda: deque(maxlen=KEPT_LESSONS))
    effect: Effect | None = None
    newest_click: int = 0  # whose effect it is
    version: int = 0
    changes: int = 0
    simulating: bool = False
    left: int | None = None  # of the searches that were asked for
    faults: dict[str, str] = field(default_factory=dict)  # what does not go on, and why

    def notify(self) -> None:
        """Tell the pages that are open that something has changed."""
        self.changes += 1

    def add_lessons(self, new: list[Lesson]) -> None:
        """Keep the newest lessons."""
        self.lessons.extendleft(new)
        self.notify()

    def show_effect(self, click: int, effect: Effect) -> None:
        """Show the effect of a click, unless that of a later one is shown: one version may have learned both."""
        if click > self.newest_click:
            self.newest_click, self.effect = click, effect
            self.faults.pop(NO_EFFECT, None)
            self.notify()

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        curves = self.tally.curves
        return {
            "version": self.version,
            "outcome": self.tally.outcome(),
            "success": self.tally.success(),
            "searches": curves.ends(),
            "curves": curves.points(),
            "lessons": [asdict(lesson) for lesson in self.lessons],
            "effect": None if self.effect is None else self.effect.as_dict(),
            "simulating": self.simulating,
            "left": self.left,
            "faults": [f"{what}: {why}" for what, why in self.faults.items()],
        }
