"""Intervals of means of skewed numbers and of ratios, in closed form: the same log gives the same interval."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

LEVEL = 0.95
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
NO_SKEWNESS = 1e-9


def of_mean(mean: float, deviations: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of a mean from the deviations [n] from it, corrected for their skewness.

    Weights make rewards skewed: a few lists count for many. Hall's cubic transformation of Student's statistic takes
    the first effect of that away (P. Hall, On the removal of skewness by transformation, 1992).
    """
    n, root = len(deviations), math.sqrt(len(deviations))
    spread = math.sqrt(float((deviations**2).sum()) / max(n - 1, 1))
    if spread == 0:
        return mean, mean
    skewness = float((deviations * deviations * deviations).mean()) / spread**3
    t_low, t_high = (_untransformed(z, skewness, root) for z in (-Z, Z))
    return mean - spread / root * t_high, mean - spread / root * t_low


def _untransformed(z: float, skewness: float, root: float) -> float:
    """Return the Student's statistic that Hall's transformation makes this z."""
    if abs(skewness) < NO_SKEWNESS:
        return z
    return 3 * root / skewness * float(np.cbrt(1 + skewness * (z - skewness / (6 * root)) / root) - 1)


def of_ratio(ratio: float, deviations: np.ndarray, pull: np.ndarray, ends: tuple[float, float]) -> tuple[float, float]:
    """Return the 95 % interval of a self-normalised mean: all values v with (Σ e)² ≤ z² Σ e², e being as v has it.

    The deviations e [n] are given at the estimate. A value v that is δ above it makes them δ · pull [n] smaller, where
    the mean of `pull` is 1. Two lists in effect are added, one at each of the `ends` of what lists earned: where all
    that count earned the same, the interval is no point. It has no end where fewer than z² lists count.
    """
    n, squares = len(deviations), float((pull**2).sum())
    a = n * n - Z**2 * squares
    b = Z**2 * float((deviations * pull).sum())
    c = Z**2 * (float((deviations**2).sum()) + (squares / n) ** 2 * sum((end - ratio) ** 2 for end in ends))
    if a <= 0:
        return -math.inf, math.inf
    width = math.sqrt(max(b * b + a * c, 0))
    return ratio + (-b - width) / a, ratio + (-b + width) / a
