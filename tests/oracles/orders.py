"""Pairs of held-out documents, one after the other."""

from __future__ import annotations

from collections.abc import Sequence


def wrong_share(certain: Sequence[Sequence[Sequence[bool]]], values: Sequence[Sequence[float]]) -> float | None:
    """Return of the certain orders between documents of different value the share that puts the lower one first."""
    right = wrong = 0
    for orders, value in zip(certain, values, strict=True):
        for i, row in enumerate(orders):
            for j, precedes in enumerate(row):
                right += bool(precedes) and value[i] > value[j]
                wrong += bool(precedes) and value[i] < value[j]
    return wrong / (right + wrong) if right + wrong else None
