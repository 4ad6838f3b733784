"""The depth of a Page–Hinkley sum, and the means before and after its highest point, from the whole stream at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def means(values: Sequence[float], horizon: int) -> np.ndarray:
    """Return after each value the mean so far; beyond the horizon older values fade."""
    found = [0.0]
    for n, value in enumerate(values, start=1):
        kept = 1 - 1 / min(n, horizon)
        found.append(kept * found[-1] + (1 - kept) * value)
    return np.array(found[1:])


def fall(values: Sequence[float], horizon: int, tolerance: float, least: int) -> tuple[float, int, float]:
    """Return how deep the sum lies below its highest point, how many values ago that was, and their mean.

    The highest point is sought after the first `least` values; of fewer, the last one is taken.
    """
    sums = np.concatenate([[0.0], np.cumsum(np.asarray(values) - means(values, horizon) + tolerance)])
    least = min(least, len(values))
    then = least + int(np.argmax(sums[least:]))
    since = np.asarray(values)[then:]
    return float(sums[then] - sums[-1]), len(since), float(since.mean()) if len(since) else 0.0
