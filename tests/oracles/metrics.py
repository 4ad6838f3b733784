"""Metrics by loops over documents and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from math import log2


def dcg(grades: Sequence[int]) -> float:
    return sum((2.0**grade - 1) / log2(1 + rank) for rank, grade in enumerate(grades, start=1))


def ndcg(shown: Sequence[int], candidates: Sequence[int]) -> float:
    ideal = dcg(sorted(candidates, reverse=True)[: len(shown)])
    return dcg(shown) / ideal if ideal > 0 else 0.0


def cumulative_ndcg(values: Sequence[float], gamma: float) -> float:
    """Return Σ NDCG · γ^(t − 1), t from 1 (the Evaluations paragraph of sec:exp)."""
    return sum(value * gamma ** (t - 1) for t, value in enumerate(values, start=1))


def misordered(grades: Sequence[int]) -> int:
    """Return K(π, π*) (sec:method): pairs in which the lower grade stands above the higher."""
    return sum(above < below for above, below in combinations(grades, 2))


def misordered_shown(order: Sequence[int], grades: Sequence[int], scores: Sequence[float]) -> float:
    """Return the mean K over all full lists that begin with order and go on by score."""
    rest = [document for document in range(len(grades)) if document not in order]
    lists = [[*order, *tail] for tail in permutations(rest)]
    falling = [
        full
        for full in lists
        if all(scores[a] >= scores[b] for a, b in zip(full[len(order) :], full[len(order) + 1 :], strict=False))
    ]
    return sum(misordered([grades[document] for document in full]) for full in falling) / len(falling)


def random_ndcg(grades: Sequence[int], k: int) -> float:
    """Return the mean NDCG@k over every order of the documents."""
    found = [ndcg(order[:k], grades) for order in permutations(grades)]
    return sum(found) / len(found)
