"""Means with intervals, and paired tests of many at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True)
class Mean:
    """A mean and the half width of its 95 % interval by Student's t; NaN of fewer than two values."""

    value: float
    half_width: float
    n: int


def mean(values: Sequence[float] | np.ndarray) -> Mean:
    """Return the mean of independent values, with its interval.

    >>> m = mean([1.0, 2.0, 3.0])
    >>> m.value, round(m.half_width, 3)
    (2.0, 2.484)
    """
    known = np.asarray([v for v in values if not math.isnan(v)], np.float64)
    n = len(known)
    if n < 2:
        return Mean(float(known[0]) if n else math.nan, math.nan, n)
    error = float(known.std(ddof=1)) / math.sqrt(n)
    return Mean(float(known.mean()), error * float(stats.t.ppf((1 + LEVEL) / 2, n - 1)), n)


def tenth_percentile(values: Sequence[float] | np.ndarray) -> float:
    """Return the value that a tenth of all values stay below, by linear interpolation; NaN of none.

    >>> tenth_percentile([1.0, 2.0, 3.0])
    1.2
    """
    known = [value for value in values if not math.isnan(value)]
    return float(np.percentile(known, 10)) if known else math.nan


def paired(differences: Sequence[float] | np.ndarray) -> float:
    """Return the p-value of a two-sided paired t-test that the differences have mean 0; NaN of fewer than two.

    >>> paired([0.0, 0.0])
    1.0
    """
    d = np.asarray(differences, np.float64)
    if len(d) < 2:
        return math.nan
    spread = float(d.std(ddof=1))
    if spread == 0:
        return 1.0 if d[0] == 0 else 0.0
    t = float(d.mean()) / (spread / math.sqrt(len(d)))
    return float(2 * stats.t.sf(abs(t), len(d) - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for their number by Holm's method; NaN stays NaN and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted((i for i, p in enumerate(p_values) if not math.isnan(p)), key=lambda i: p_values[i])
    corrected, running = list(p_values), 0.0
    for place, i in enumerate(order):
        running = max(running, min(1.0, (len(order) - place) * p_values[i]))
        corrected[i] = running
    return corrected
