"""Raw features and the caller's own scores → the numbers that a ranker sees, at a scale that nobody chose by hand.

A column is a feature, or the caller's score (the prior), which is the last one. Each column gets a location and a
spread, estimated from what was shown. The standardised prior is a feature of its own, so that rankers learn its
weight; times a strength it is also the prior of the query, so that a new model begins with the caller's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perturank.errors import BadInput

TAIL = 0.05  # of the values on either side are not looked at: outliers decide neither location nor spread
NORMAL_RANGE = 3.2897  # between these two quantiles of a normal distribution, in standard deviations
STRAIGHT = 3.0  # spreads from the location beyond which a column grows with the logarithm alone
SAME = 1e-6  # a spread below this share of the location is rounding: the column is constant


@dataclass(frozen=True)
class Scale:
    """Location and spread of every column, [d + 1] each, float64; the prior is the last one."""

    location: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, columns: np.ndarray) -> Scale:
        """Return the scale of these values [n, d + 1], in which NaN is a missing value.

        The location is the mean without the tails, and the spread that of a normal distribution with the same
        range between the tails. A column of which nearly all values are equal has its standard deviation instead;
        one that is constant, or was never given, has a spread of at least 1.
        """
        values = np.asarray(columns, np.float64)
        is_given = ~np.isnan(values).all(axis=0)
        location, spread = np.zeros(values.shape[1]), np.ones(values.shape[1])
        if not is_given.any():
            return cls(location, spread)
        given = values[:, is_given]
        low, high = np.nanquantile(given, (TAIL, 1 - TAIL), axis=0)
        centre = np.nanmean(np.clip(given, low, high), axis=0)
        width = (high - low) / NORMAL_RANGE
        width = np.where(width > SAME * np.abs(centre), width, np.nanstd(given, axis=0))
        location[is_given] = centre
        spread[is_given] = np.where(width > SAME * np.abs(centre), width, np.maximum(np.abs(centre), 1.0))
        return cls(location, spread)

    def apply(self, columns: np.ndarray) -> np.ndarray:
        """Return standardised columns [n, d + 1]; a missing value is one at the location, 0."""
        z = np.asarray(columns, np.float64) - self.location
        z /= self.spread
        far = np.nonzero(~(np.abs(z) <= STRAIGHT))  # few; NaN is among them
        tails = z[far]
        z[far] = np.where(np.isnan(tails), 0.0, np.sign(tails) * (STRAIGHT + np.log1p(np.abs(tails) - STRAIGHT)))
        return z


@dataclass(frozen=True)
class Schema:
    """What a model knows of its features: names, scales that its owner has set, and the scale that it has learned."""

    n_features: int
    names: tuple[str, ...] | None = None
    own: Mapping[int, tuple[float, float, float | None]] | None = None  # column → shift, scale, missing value
    strength: float = 1.0  # of the prior, in units of the score
    scale: Scale | None = None  # None: nothing was shown yet

    @property
    def width(self) -> int:
        """The number of features that the ranker sees."""
        return self.n_features + 1

    def standardise(self, features: np.ndarray, prior: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the ranker's features [n, d + 1] and its prior [n] of raw features [n, d] and scores [n] (None: none).

        Before anything was shown, the documents themselves give the scale.
        """
        columns = join(features, prior)
        seen = (self.scale or Scale.of(columns)).apply(columns)
        for i, (shift, scale, missing) in (self.own or {}).items():
            given = (columns[:, i] - shift) / scale
            seen[:, i] = np.where(np.isnan(given), 0.0 if missing is None else missing, given)
        rows = seen.astype(np.float32)
        return rows, np.float32(self.strength) * rows[:, -1]

    def with_scale(self, scale: Scale) -> Schema:
        """Return the schema with this scale."""
        return Schema(self.n_features, self.names, self.own, self.strength, scale)

    def as_dict(self) -> dict[str, Any]:
        """Return the schema as JSON values, to the bit."""
        scale = self.scale
        return {
            "n_features": self.n_features,
            "names": None if self.names is None else list(self.names),
            "own": {str(i): list(values) for i, values in (self.own or {}).items()},
            "strength": self.strength,
            "location": None if scale is None else scale.location.tolist(),
            "spread": None if scale is None else scale.spread.tolist(),
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any], path: object) -> Schema:
        """Return the schema that these values describe; `path` names the file that they come from."""
        try:
            n, location, spread = int(said["n_features"]), said["location"], said["spread"]
            names = None if said["names"] is None else tuple(map(str, said["names"]))
            own = {int(i): (float(a), float(b), c) for i, (a, b, c) in said["own"].items()}
            scale = None if location is None else Scale(_column(location, n + 1), _column(spread, n + 1))
            return cls(n, names, own or None, float(said["strength"]), scale)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"the schema of {path} is damaged ({error})", "use another copy of it") from None


def join(features: np.ndarray, prior: np.ndarray | None) -> np.ndarray:
    """Return features [n, d] and prior [n] as columns [n, d + 1]; without a prior the last one is missing."""
    last = np.full(len(features), np.nan, np.float32) if prior is None else prior
    return np.column_stack([features, last])


def _column(values: Sequence[float], n: int) -> np.ndarray:
    column = np.asarray(values, np.float64)
    if column.shape != (n,) or not np.isfinite(column).all():
        raise ValueError(f"{n} finite numbers are needed")
    return column
