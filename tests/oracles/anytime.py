"""Evidence by integrating over λ, the difference of a split group by group, every team draft with its probability."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
from scipy import integrate

NOBODY = -1


def log_evidence(differences: Sequence[float], prior: float) -> float:
    """Return log of the mean over λ ~ N(0, 1/c) of Π exp(λd - λ²d²/2)."""
    spread = 1 / math.sqrt(prior)

    def wealth(x: float) -> float:
        law = math.exp(-((x / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
        return law * math.prod(math.exp(x * d - x**2 * d**2 / 2) for d in differences)

    return math.log(integrate.quad(wealth, -8 * spread, 8 * spread, limit=200)[0])


def split_difference(groups: Mapping[str, tuple[int, Sequence[float]]]) -> tuple[float, float, float]:
    """Return the sum and the squares of what groups earned beyond the mean, and the difference of a list's earnings.

    Each group has its arm, 0 or 1, and what each of its lists earned.
    """
    lists = {arm: [worth for of, worths in groups.values() if of == arm for worth in worths] for arm in (0, 1)}
    mean = np.mean(lists[0] + lists[1])
    rests = [(arm, sum(worth - mean for worth in worths)) for arm, worths in groups.values()]
    total = sum(rest if arm == 0 else -rest for arm, rest in rests)
    return float(total), float(sum(rest**2 for _, rest in rests)), float(np.mean(lists[0]) - np.mean(lists[1]))


def team_drafts(lists: Sequence[Sequence[int]], top: int) -> dict[tuple[tuple[int, ...], tuple[int, ...]], float]:
    """Return the law of (list, teams): rounds in random order, and what all would add next belongs to nobody."""
    law: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}

    def go_on(shown: tuple[int, ...], teams: tuple[int, ...], p: float) -> None:
        left = [[d for d in each if d not in shown] for each in lists]
        if len(shown) >= top or not any(left):
            law[shown[:top], teams[:top]] = law.get((shown[:top], teams[:top]), 0.0) + p
        elif all(each and each[0] == left[0][0] for each in left):
            go_on((*shown, left[0][0]), (*teams, NOBODY), p)
        else:
            turns = list(permutations([ranker for ranker, each in enumerate(left) if each]))
            for turn in turns:
                longer, more = shown, teams
                for ranker in turn:
                    picks = [d for d in lists[ranker] if d not in longer]
                    if picks:
                        longer, more = (*longer, picks[0]), (*more, ranker)
                go_on(longer, more, p / len(turns))

    go_on((), (), 1.0)
    return law
