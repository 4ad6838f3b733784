"""Lists drawn place by place; the laws of `oracles.ordering` enumerate the same lists."""

from __future__ import annotations

import numpy as np


def best_first(scores: np.ndarray, rng: np.random.Generator) -> list[int]:
    """Return all documents by falling score, ties at random."""
    order: list[int] = np.lexsort((rng.random(len(scores)), -scores)).tolist()
    return order


def topological(certain: np.ndarray, k: int, rng: np.random.Generator, floor: float = 0.0) -> list[int]:
    """Return a list with a uniform pick among the documents that nothing left certainly precedes (alg:model).

    A share `floor` of places goes to any document left.
    """
    left, shown = np.arange(len(certain)), list[int]()
    for _ in range(min(k, len(certain))):
        free = left[~certain[np.ix_(left, left)].any(axis=0)]
        shown.append(int(rng.choice(left if rng.random() < floor else free)))
        left = left[left != shown[-1]]
    return shown


def plackett_luce(scores: np.ndarray, k: int, rng: np.random.Generator) -> list[int]:
    """Return a list whose next document has odds e^score among those left."""
    odds, shown = np.exp(scores - scores.max()), list[int]()
    for _ in range(min(k, len(scores))):
        shown.append(int(rng.choice(len(odds), p=odds / odds.sum())))
        odds[shown[-1]] = 0
    return shown


def epsilon_greedy(scores: np.ndarray, k: int, epsilon: float, rng: np.random.Generator) -> list[int]:
    """Return a list whose next document is any left with probability ε, else the best left."""
    left, shown = best_first(scores, rng), list[int]()
    for _ in range(min(k, len(scores))):
        shown.append(left.pop(int(rng.integers(len(left))) if rng.random() < epsilon else 0))
    return shown


def team_draft(rankings: list[list[int]], k: int, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Return a list and its teams: a ranker with the fewest documents so far adds its best one left."""
    shown, teams = list[int](), list[int]()
    while len(shown) < min(k, len(rankings[0])):
        for team in rng.permutation(len(rankings))[: min(k, len(rankings[0])) - len(shown)]:
            shown.append(next(document for document in rankings[team] if document not in shown))
            teams.append(int(team))
    return shown, teams
