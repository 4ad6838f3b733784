"""What shadow mode says, from all lists at once as it is defined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PATIENCE = 0.9


def rank_biased_overlap(one: Sequence[str], other: Sequence[str]) -> float:
    k = min(len(one), len(other))
    weights = PATIENCE ** np.arange(k)
    shares = [len(set(one[:depth]) & set(other[:depth])) / depth for depth in range(1, k + 1)]
    return float(weights @ shares / weights.sum())


def reranked(shown: Sequence[str], ours: Sequence[str]) -> list[str]:
    return [each for each in ours if each in shown] + [each for each in shown if each not in ours]


def bounds(lists: Sequence[tuple[Sequence[str], Sequence[str], set[str]]]) -> tuple[float, float]:
    """Return the least and the most gain of lists: what was shown, the ranker's list, what was clicked."""
    k = max(len(shown) for shown, _, _ in lists)
    clicks, gains = np.zeros(k), np.zeros(k)
    for shown, ours, clicked in lists:
        hit = np.array([each in clicked for each in shown])
        clicks[: len(shown)] += hit
        if hit.any():
            first, theirs = (min(order.index(each) for each in clicked) for order in (shown, reranked(shown, ours)))
            gains[first] += 1 / (theirs + 1) - 1 / (first + 1)
    read = np.minimum((np.array([clicks[place:].max() for place in range(k)]) + 1) / (clicks[0] + 1), 1)
    ends = np.stack([gains, gains / read])
    return float(ends.min(axis=0).sum() / len(lists)), float(ends.max(axis=0).sum() / len(lists))
