"""Reversed orders and their control, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[int, int, int]  # query, the document that comes first, the other


def largest(scores: Sequence[Sequence[float]], n: int) -> set[Pair]:
    """Return the n pairs of the largest score difference, the higher score first."""
    pairs = [
        (row[i] - row[j], (query, i, j))
        for query, row in enumerate(scores)
        for i in range(len(row))
        for j in range(len(row))
        if row[i] > row[j]
    ]
    return {pair for _, pair in sorted(pairs, reverse=True)[:n]}


def reversed_share(pairs: set[Pair], later: Sequence[Sequence[float]]) -> float:
    """Return the share of pairs that later scores put the other way round."""
    return sum(later[query][i] < later[query][j] for query, i, j in pairs) / len(pairs)
