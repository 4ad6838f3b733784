"""Exact probabilities of shown lists, by enumeration; documents are numbers, lists are tuples, best first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product

import numpy as np

from .certainty import closure

Shown = tuple[int, ...]
Teams = tuple[int, ...]


def free(certain: np.ndarray, placed: Sequence[int]) -> list[int]:
    """Return the documents that may come next: no unplaced document certainly precedes them (alg:model)."""
    left = [d for d in range(len(certain)) if d not in placed]
    return [d for d in left if not any(certain[other, d] for other in left)]


def list_probability(certain: np.ndarray, shown: Sequence[int]) -> float:
    """Return Π 1/|free|, the probability of a list under topological sort with uniform picks."""
    p = 1.0
    for place, document in enumerate(shown):
        choices = free(certain, shown[:place])
        p *= (document in choices) / len(choices)
    return p


def _enumerated(n: int, k: int, choices: Callable[[Shown], dict[int, float]]) -> dict[Shown, float]:
    """Return the law of a list built place by place from a law of the next document given those placed."""
    lists: dict[Shown, float] = {(): 1.0}
    for _ in range(min(k, n)):
        longer: dict[Shown, float] = defaultdict(float)
        for placed, p in lists.items():
            for document, p_next in choices(placed).items():
                longer[(*placed, document)] += p * p_next
        lists = {shown: p for shown, p in longer.items() if p > 0}
    return lists


Held = Callable[[Sequence[int], Sequence[int], int], Sequence[int]]  # candidates, documents left, place -> candidates


def place_by_place(
    n: int, k: int, next_free: Callable[[Shown], Sequence[int]], floor: float = 0.0, held: Held | None = None
) -> dict[Shown, float]:
    """Return the law of the top k: at each place a uniform pick among the free or, with probability ε, among all left.

    `held` says which of either may stand there.
    """

    def choices(placed: Shown) -> dict[int, float]:
        left: Sequence[int] = [d for d in range(n) if d not in placed]
        some, everyone = next_free(placed), left
        if held is not None:
            some, everyone = held(some, left, len(placed)), held(left, left, len(placed))
        return {d: (1 - floor) * (d in some) / len(some) + floor * (d in everyone) / len(everyone) for d in left}

    return _enumerated(n, k, choices)


def held_back(standing: Sequence[int], protected: int, reach: int) -> Held:
    """Return limits: candidates at most `reach` places behind the best left; in protected places the best alone."""

    def held(candidates: Sequence[int], left: Sequence[int], place: int) -> Sequence[int]:
        best = min(standing[d] for d in left)
        return [d for d in candidates if standing[d] - best <= (0 if place < protected else reach)]

    return held


def topological_lists(certain: np.ndarray, k: int, floor: float = 0.0, held: Held | None = None) -> dict[Shown, float]:
    """Return the law of the top k under topological sort: a uniform pick among the free at each place."""
    return place_by_place(len(certain), k, lambda placed: free(certain, placed), floor, held)


def blocks(certain: np.ndarray) -> list[list[int]]:
    """Return the connected components of the uncertain pairs under the closure, in certain order."""
    reach = closure(certain)
    joined = closure(~(reach | reach.T))  # an uncertain pair, or a chain of them; every document joins itself
    components = sorted({tuple(np.flatnonzero(row).tolist()) for row in joined})
    return [list(c) for c in sorted(components, key=lambda c: sum(bool(reach[d[0], c[0]]) for d in components))]


def block_lists(certain: np.ndarray, k: int) -> dict[Shown, float]:
    """Return the law of the top k when every block is shuffled uniformly and blocks keep their order."""
    lists: dict[Shown, float] = defaultdict(float)
    orders = list(product(*(list(permutations(block)) for block in blocks(certain))))
    for order in orders:
        lists[tuple(d for block in order for d in block)[:k]] += 1 / len(orders)
    return dict(lists)


def first_block(certain: np.ndarray, placed: Sequence[int]) -> list[int]:
    """Return what is left of the first block that is not placed whole."""
    left = ([d for d in block if d not in placed] for block in blocks(certain))
    return next(block for block in left if block)


def plackett_luce_lists(scores: Sequence[float], k: int) -> dict[Shown, float]:
    """Return the law of the top k when the next document has odds e^score among those left."""

    def choices(placed: Shown) -> dict[int, float]:
        odds = {d: float(np.exp(scores[d])) for d in range(len(scores)) if d not in placed}
        return {d: odd / sum(odds.values()) for d, odd in odds.items()}

    return _enumerated(len(scores), k, choices)


def epsilon_greedy_lists(scores: Sequence[float], k: int, epsilon: float) -> dict[Shown, float]:
    """Return the law of the top k: with ε any document left, else one of the best left, ties uniform (sec:exp)."""

    def choices(placed: Shown) -> dict[int, float]:
        left = [d for d in range(len(scores)) if d not in placed]
        best = [d for d in left if scores[d] == max(scores[e] for e in left)]
        return {d: epsilon / len(left) + (1 - epsilon) * (d in best) / len(best) for d in left}

    return _enumerated(len(scores), k, choices)


def team_drafts(rankings: Sequence[Sequence[int]], k: int) -> dict[tuple[Shown, Teams], float]:
    """Return the law of (list, teams): a ranker with the fewest documents so far adds its best one left."""

    def next_teams(teams: Teams) -> dict[int, float]:
        sizes = [teams.count(ranker) for ranker in range(len(rankings))]
        fewest = [ranker for ranker, size in enumerate(sizes) if size == min(sizes)]
        return {ranker: 1 / len(fewest) for ranker in fewest}

    def picks(ranker: int, placed: Shown) -> dict[int, float]:
        return {next(d for d in rankings[ranker] if d not in placed): 1.0}

    return dict(_interleaved(rankings, k, next_teams, picks))


def probabilistic_interleavings(
    rankings: Sequence[Sequence[int]], k: int, tau: float = 3.0
) -> dict[tuple[Shown, Teams], float]:
    """Return the law of (list, teams): any ranker, uniformly, draws a document left with odds 1 / rank^τ."""

    def next_teams(teams: Teams) -> dict[int, float]:
        return {ranker: 1 / len(rankings) for ranker in range(len(rankings))}

    return dict(_interleaved(rankings, k, next_teams, lambda n, placed: rank_softmax(rankings[n], placed, tau)))


def rank_softmax(ranking: Sequence[int], placed: Sequence[int], tau: float = 3.0) -> dict[int, float]:
    """Return the odds 1 / rank^τ of the documents left, made to sum to one; ranks are those of the full list."""
    odds = {d: rank**-tau for rank, d in enumerate(ranking, start=1) if d not in placed}
    return {d: odd / sum(odds.values()) for d, odd in odds.items()}


def team_odds(rankings: Sequence[Sequence[int]], shown: Sequence[int], tau: float = 3.0) -> np.ndarray:
    """Return the probability that each ranker gave each place, given the list; [k, N]."""
    odds = np.array(
        [[rank_softmax(r, shown[:place], tau)[document] for r in rankings] for place, document in enumerate(shown)]
    )
    return np.asarray(odds / odds.sum(1, keepdims=True))


def _interleaved(
    rankings: Sequence[Sequence[int]],
    k: int,
    next_teams: Callable[[Teams], dict[int, float]],
    picks: Callable[[int, Shown], dict[int, float]],
) -> Iterator[tuple[tuple[Shown, Teams], float]]:
    states: dict[tuple[Shown, Teams], float] = {((), ()): 1.0}
    for _ in range(min(k, len(rankings[0]))):
        longer: dict[tuple[Shown, Teams], float] = defaultdict(float)
        for (placed, teams), p in states.items():
            for ranker, p_ranker in next_teams(teams).items():
                for document, p_document in picks(ranker, placed).items():
                    longer[((*placed, document), (*teams, ranker))] += p * p_ranker * p_document
        states = longer
    yield from states.items()
