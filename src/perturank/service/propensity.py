"""The probability of a list: exact where places were drawn by equal lots, to float32's digits elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence

CLOSE = 1e-6  # float32 cannot tell a logarithm from another nearer than this


def log_probability(log_p: Sequence[float], free: Sequence[int]) -> float:
    """Return the log-probability of a list from those of its places; 1/free is taken for what is as good as it."""
    total, n_lists = 0.0, 1
    for place, n in zip(log_p, free, strict=True):
        surprise = math.log(max(n, 1))
        if abs(place + surprise) <= CLOSE * surprise:
            n_lists *= max(n, 1)  # as an integer: 3! lists of equal chance are 6, not e^1.79175946
        else:
            total += place
    return total - math.log(n_lists)


def probability(log_p: float) -> float:
    """Return the probability to the seven digits that float32 knows.

    >>> probability(-math.log(2)), probability(-math.log(3))
    (0.5, 0.3333333)
    """
    return float(f"{math.exp(log_p):.7g}")
