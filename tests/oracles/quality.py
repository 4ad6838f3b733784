"""The quality of lists from the whole list of impressions, as defined; and every list with its probability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np


@dataclass(frozen=True)
class Impression:
    """A list as shown, the best estimate's and the caller's own, places' probabilities, and each document's worth.

    p [k] are those of a list that explores, given those above. A document of worth was clicked.
    """

    shown: Sequence[str]
    best: Sequence[str]
    own: Sequence[str]
    p: Sequence[float]
    worths: dict[str, float]


def reciprocal_rank(impression: Impression) -> float:
    hits = [1 / (r + 1) for r, document in enumerate(impression.shown) if impression.worths.get(document, 0) > 0]
    return max(hits, default=0.0)


def weights(impression: Impression, other: Sequence[str], share: float) -> np.ndarray:
    """Return how many readers of the other order this one stands for at each place; [k]."""
    found = np.zeros(len(impression.shown))
    for j in range(1, len(found) + 1):
        if list(impression.shown[:j]) == list(other[:j]):
            is_best = list(impression.best[:j]) == list(other[:j])
            found[j - 1] = 1 / (share * np.prod(impression.p[:j]) + (1 - share) * is_best)
    return found


def qualities(impressions: Sequence[Impression], order: str, share: float = 1.0) -> dict[str, np.ndarray]:
    """Return least and most reciprocal rank, reward and coverage of `best` or `own`, of each list; [n] each."""
    found: dict[str, list[float]] = {"least": [], "most": [], "reward": [], "coverage": []}
    for each in impressions:
        k = len(each.shown)
        w = weights(each, getattr(each, order), share)
        worth = np.array([each.worths.get(document, 0.0) for document in each.shown])
        rank = reciprocal_rank(each)
        click = k if rank == 0 else round(1 / rank) - 1  # from 0
        places = np.arange(1, k + 1)
        value = 1 / np.append(places, np.inf)
        value[k] = 0  # nothing is left below the last place
        losses = value[:-1] - value[1:]
        found["least"].append(rank * (w[click] if rank else 0))
        found["most"].append(1 - float((w * losses)[:click].sum()))
        found["reward"].append(float(w @ worth))
        found["coverage"].append(float(w @ (1 / places) / (1 / places).sum()))
    return {name: np.array(values) for name, values in found.items()}


def allowed(left: Sequence[str], placed: int, best: Sequence[str], protected: int, displacement: int) -> list[str]:
    """Return which documents may stand at the next place: the limits, as their documentation has them."""
    first = min(best.index(document) for document in left)
    reach = 0 if placed < protected else displacement
    return [document for document in left if best.index(document) <= first + reach]


def every_list(
    best: Sequence[str], k: int, *, share: float, protected: int, displacement: int
) -> Iterator[tuple[list[str], list[float], float]]:
    """Yield each list of k documents with its places' probabilities and its own, for a ranker that is never certain."""
    for shown in permutations(best, k):
        p = []
        for j, document in enumerate(shown):
            left = [each for each in best if each not in shown[:j]]
            free = allowed(left, j, best, protected, displacement)
            p.append((document in free) / len(free))
        chance = share * float(np.prod(p)) + (1 - share) * (list(shown) == list(best[:k]))
        if chance > 0:
            yield list(shown), p, chance


def every_reader(shown: Sequence[str], attraction: dict[str, float]) -> Iterator[tuple[dict[str, float], float]]:
    """Yield what each kind of reader finds worth something, with its probability; after a click they read on, or not.

    Documents are worth 1 each; half of the readers leave after a click.
    """

    def read(place: int, clicked: dict[str, float], p: float) -> Iterator[tuple[dict[str, float], float]]:
        if place == len(shown):
            yield clicked, p
            return
        a = attraction[shown[place]]
        hit = clicked | {shown[place]: 1.0}
        yield hit, p * a / 2
        yield from read(place + 1, hit, p * a / 2)
        yield from read(place + 1, clicked, p * (1 - a))

    return read(0, {}, 1.0)
