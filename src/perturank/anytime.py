"""Verdicts that may be looked at at any time: how surely a sum of symmetric differences is not chance.

A difference D says how much more one of two arms has earned. If the arms are alike, D and -D are equally likely, given
all that came before. Then exp(λS - λ²V/2), with S the sum of the differences and V that of their squares, is a
supermartingale for every λ, however large single differences are (de la Peña, 1999). Its mean over λ ~ N(0, 1/c),

    E = √(c / (V + c)) · exp(S² / 2(V + c)),

is one too, so that it ever reaches 1/α with probability at most α: whoever looks after every list, and stops when they
like, is misled as seldom as they have chosen. Inverted, it gives a confidence sequence (Robbins' normal mixture). It is
exact for arms that are alike, and holds for large n for arms that only earn the same on average (Waudby-Smith et al.,
2021).

Sums and squares are all that is kept: an update takes constant time, and arrays of tests are judged at once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

PRIOR = 10.0  # c, in squares of a unit: the verdict is quickest when some 80 lists differed by one
MOST_MORE = 1e12  # lists; what would take longer is never decided


def log_evidence(total: Any, squares: Any, prior: float = PRIOR) -> Any:
    """Return log E of differences with this sum and this sum of squares; numbers or arrays of them.

    >>> round(float(log_evidence(20, 25)), 3)
    5.088
    """
    spread = np.asarray(squares, np.float64) + prior
    return np.square(total) / (2 * spread) - np.log(spread / prior) / 2


def radius(squares: Any, level: float, prior: float = PRIOR) -> Any:
    """Return how far a sum of differences lies from its mean, at any time, with probability 1 - level.

    >>> round(float(radius(25, 0.05)), 3)
    15.923
    """
    spread = np.asarray(squares, np.float64) + prior
    return np.sqrt(spread * (np.log(spread / prior) - 2 * math.log(level)))


def n_more(n: int, total: float, squares: float, level: float, prior: float = PRIOR) -> float:
    """Return how many more lists decide at this level if differences go on as in the first n; infinite: too many.

    >>> n_more(100, 20, 25, 0.05), n_more(100, 5, 25, 0.05)
    (0.0, 860.0)
    """
    if n == 0 or total == 0:
        return math.inf

    def is_decided(times: float) -> bool:
        return bool(log_evidence(total * times, squares * times, prior) >= -math.log(level))

    low, high = 1.0, 1.0
    while not is_decided(high):
        low, high = high, 2 * high
        if n * high > MOST_MORE:
            return math.inf
    while n * (high - low) > 0.5 and high > low * (1 + 1e-9):
        middle = (low + high) / 2
        low, high = (low, middle) if is_decided(middle) else (middle, high)
    return float(math.ceil(n * (high - 1)))


def confidence(evidence: float, n_comparisons: int = 1) -> float:
    """Return how sure a verdict with this log E is, as 1 - p; p is corrected for so many comparisons (union bound).

    >>> round(confidence(math.log(40)), 4), confidence(-1.0)
    (0.975, 0.0)
    """
    return max(0.0, 1 - n_comparisons * math.exp(-max(evidence, 0.0)))


class Earnings(NamedTuple):
    """What the groups of one arm of a split saw and earned, summed over the groups; numbers or arrays of them.

    Lists of one person are not independent, and a person is in one group of one arm. So the group is the unit, as if
    each had seen one long list.
    """

    lists: Any = 0.0
    worth: Any = 0.0
    lists_squared: Any = 0.0
    lists_times_worth: Any = 0.0
    worth_squared: Any = 0.0

    def grown(self, n: Any, worth: Any, more: Any) -> Earnings:
        """Return these after a group with n lists, which earned `worth`, saw one more that earned `more`."""
        return Earnings(
            self.lists + 1,
            self.worth + more,
            self.lists_squared + 2 * n + 1,
            self.lists_times_worth + worth + (n + 1) * more,
            self.worth_squared + (2 * worth + more) * more,
        )


class Difference(NamedTuple):
    """S and V of two arms, and so many lists that S / n is the difference of what a list earns in each."""

    n: Any
    total: Any
    squares: Any


def split_difference(one: Earnings, other: Earnings) -> Difference:
    """Return the difference of two arms of a split.

    The earnings of a group count less what its lists earn on average in both arms: that takes out what all share.
    """
    n = np.maximum(one.lists + other.lists, 1)
    mean = (one.worth + other.worth) / n
    total = (one.worth - mean * one.lists) - (other.worth - mean * other.lists)
    squares = sum(
        arm.worth_squared - 2 * mean * arm.lists_times_worth + mean**2 * arm.lists_squared for arm in (one, other)
    )
    return Difference(2 * one.lists * other.lists / n, total, np.maximum(squares, 0.0))
