"""Columns at a scale that nobody chose: location and spread without the tails, and what lies far out is bent."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], q: float) -> float:
    """Return the q-quantile by linear interpolation between the order statistics."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    return ordered[low] + (at - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def location_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return both for one column; NaN is a missing value."""
    given = [value for value in values if not math.isnan(value)]
    if not given:
        return 0.0, 1.0
    low, high = quantile(given, 0.05), quantile(given, 0.95)
    centre = sum(min(max(value, low), high) for value in given) / len(given)
    least = 1e-6 * abs(centre)
    spread = (high - low) / 3.2897
    if spread <= least:
        mean = sum(given) / len(given)
        spread = math.sqrt(sum((value - mean) ** 2 for value in given) / len(given))
    if spread <= least:
        spread = max(abs(centre), 1.0)
    return centre, spread


def standardised(value: float, location: float, spread: float) -> float:
    """Return one value of a column: straight up to three spreads, then the logarithm; 0 where it is missing."""
    if math.isnan(value):
        return 0.0
    z = (value - location) / spread
    return z if abs(z) <= 3 else math.copysign(3 + math.log1p(abs(z) - 3), z)
