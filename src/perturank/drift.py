"""Whether the mean of a stream has fallen: the test of Page (1954) and Hinkley (1971), as a value of a few numbers.

The test adds up how far each value lies above the mean so far, plus a tolerance. While values stay as they were, the
sum rises; it falls when they fall. How deep it lies below its highest point is the evidence of a fall, which is taken
to have begun there. For normal values of a known mean and variance σ², the chance that n values show a depth D is
about n · exp(-2 · tolerance · D / σ²): so the evidence is that exponent, and what it takes grows with log n. Values
from before the last alarm count among the n, so that false alarms become rarer and rarer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

HORIZON = 1000  # values of which the mean is one, so that what was learned at first is forgotten
TOLERANCE = 0.015  # of reciprocal ranks: a mean that falls by less is never told
EVIDENCE = 3.0  # that a fall takes within the first HORIZON values
LEAST = 30  # values before a fall can begin; of fewer, neither mean nor variance is known
LEAST_VARIANCE = 0.04  # of reciprocal ranks; a hundred equal values do not make the next one a drift


class Fall(NamedTuple):
    """A mean that has fallen: over how many values, from where, and to where."""

    n: int
    before: float
    after: float


class Watch(NamedTuple):
    """What is remembered of a stream; the last four are what it was when the sum was highest."""

    earlier: int = 0  # values before it was begun again
    n: int = 0
    mean: float = 0.0
    variance: float = 0.0
    sum: float = 0.0
    total_since: float = 0.0  # of the values since the sum was highest
    highest: float = 0.0
    n_then: int = 0
    mean_then: float = 0.0
    variance_then: float = 0.0

    def after(self, value: float) -> Watch:
        """Return the same after one more value."""
        n = self.n + 1
        share = 1 / min(n, HORIZON)
        mean = self.mean + share * (value - self.mean)
        variance = self.variance + share * ((value - self.mean) * (value - mean) - self.variance)
        total = self.sum + value - mean + TOLERANCE
        now = self._replace(n=n, mean=mean, variance=variance, sum=total, total_since=self.total_since + value)
        if n > LEAST and total <= self.highest:
            return now
        return now._replace(total_since=0.0, highest=total, n_then=n, mean_then=mean, variance_then=variance)

    def again(self) -> Watch:
        """Return the same without any value, as after an alarm."""
        return Watch(self.earlier + self.n)

    @property
    def depth(self) -> float:
        """How far the sum lies below its highest point."""
        return self.highest - self.sum

    @property
    def fall(self) -> Fall | None:
        """By how much the mean has fallen; None: there is too little evidence that it has."""
        evidence = 2 * TOLERANCE * self.depth / max(self.variance_then, LEAST_VARIANCE)
        if evidence <= EVIDENCE + math.log(max((self.earlier + self.n) / HORIZON, 1.0)):
            return None
        lists = self.n - self.n_then
        return Fall(lists, self.mean_then, self.total_since / lists)
