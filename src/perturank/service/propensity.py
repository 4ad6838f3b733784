"""The probability of a list: exact where places were drawn by equal lots, to float32's digits elsewhere."""

from __future__ import annotations

import math

import numpy as np

CLOSE = 1e-6  # float32 cannot tell a logarithm from another nearer than this


def log_probability(log_p: np.ndarray, free: np.ndarray) -> float:
    """Return the log-probability of a list from those of its places [n]; 1/free is taken for what is as good as it."""
    lots = np.maximum(free, 1)
    surprise = np.log(lots)
    equal = np.abs(log_p + surprise) <= CLOSE * surprise
    n_lists = math.prod(int(n) for n in lots[equal])  # as an integer: 3! lists of equal chance are 6, not e^1.79175946
    return float(np.sum(log_p[~equal], dtype=np.float64)) - math.log(n_lists)


def probability(log_p: float) -> float:
    """Return the probability to the seven digits that float32 knows.

    >>> probability(-math.log(2)), probability(-math.log(3))
    (0.5, 0.3333333)
    """
    return float(f"{math.exp(log_p):.7g}")
