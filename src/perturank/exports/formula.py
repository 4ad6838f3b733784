"""A ranker as a formula: named columns, how each is standardised, and ReLU layers of the standardised columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perturank.core import LayerWise, Ranker
from perturank.errors import BadInput
from perturank.layers import Layers, applied, of_columns, plus_linear
from perturank.parts.standardised import STRAIGHT, Standardised


@dataclass(frozen=True)
class Column:
    """z = (x - location) / spread; beyond ±STRAIGHT one that `bends` grows with the logarithm alone.

    A value that is missing is `missing`, a value of z.
    """

    name: str
    location: float = 0.0
    spread: float = 1.0
    bends: bool = False
    missing: float = 0.0

    @property
    def absent(self) -> float:
        """The raw value that stands for a missing one."""
        return self.location + self.missing * self.spread

    def standardised(self, values: np.ndarray) -> np.ndarray:
        """Return z of these values [n], of which NaN are missing."""
        z = (np.asarray(values, np.float64) - self.location) / self.spread
        far = np.log(np.maximum(z - STRAIGHT + 1, 1)) - np.log(np.maximum(-z - STRAIGHT + 1, 1))
        bent = np.clip(z, -STRAIGHT, STRAIGHT) + far
        return np.where(np.isnan(z), self.missing, bent if self.bends else z)


@dataclass(frozen=True)
class Formula:
    """Columns, of which the last is the prior where `has_prior`, and the layers of what is made of them."""

    columns: tuple[Column, ...]
    layers: Layers
    has_prior: bool

    @property
    def is_linear(self) -> bool:
        """Whether there is a single layer."""
        return len(self.layers) == 1

    def folded(self) -> Layers:
        """Return the layers with the scale of every column that does not bend folded into the first of them.

        Such a column is taken as it comes.
        """
        spreads = np.array([1.0 if each.bends else each.spread for each in self.columns])
        shifts = np.array([0.0 if each.bends else each.location / each.spread for each in self.columns])
        return of_columns(self.layers, np.diag(1 / spreads), -shifts)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores of raw rows [n, columns], in which NaN is missing; [n]."""
        z = [column.standardised(values) for column, values in zip(self.columns, np.asarray(rows).T, strict=True)]
        return applied(self.layers, np.stack(z, axis=1))


def formula_of(
    ranker: Ranker, *, names: Sequence[str] | None = None, prior: str | None = None, default_prior: str | None = None
) -> Formula:
    """Return the ranker as a formula; one that has none is refused.

    `prior` names the column of the caller's own score. One with a scale that has seen such scores needs it.
    """
    if not isinstance(ranker, LayerWise):
        raise BadInput(
            f"the scores of {_kind(ranker)} cannot be written as layers",
            "export a ranker with linear scorers or networks",
        )
    labels = _names(ranker, names)
    if isinstance(ranker, Standardised):
        return _behind_scale(ranker, labels, prior, default_prior)
    if prior is None:
        return Formula(tuple(Column(label) for label in labels), ranker.layers(), has_prior=False)
    d = ranker.n_features
    wider = of_columns(ranker.layers(), np.eye(d, d + 1), np.zeros(d))
    columns = tuple(Column(label) for label in _with_prior(labels, prior))
    return Formula(columns, plus_linear(wider, np.append(np.zeros(d), 1.0)), has_prior=True)


def _behind_scale(ranker: Standardised, names: list[str], prior: str | None, default_prior: str | None) -> Formula:
    assert isinstance(ranker, LayerWise)
    d = ranker.n_features
    location, spread = np.asarray(ranker.location, np.float64), np.asarray(ranker.spread, np.float64)
    fixed, missing = np.asarray(ranker.fixed), np.asarray(ranker.missing, np.float64)
    knows_prior = (location[d], spread[d]) not in ((0.0, 0.0), (0.0, 1.0))
    unknown = next((names[i] for i in range(d) if spread[i] == 0), None)
    if unknown is not None:
        raise BadInput(
            f"the scale of feature {unknown!r} is not known yet: within each list it would be another",
            "let the model show lists and learn first",
        )
    chosen = prior or (default_prior if knows_prior else None)
    if knows_prior and chosen is None:
        raise BadInput(
            "the model has learned with a prior, which the engine does not have",
            "name the feature that holds it with prior, on the command line with --prior",
        )
    if not knows_prior and prior is not None:
        raise BadInput(f"the model has never seen a prior: {prior!r} has no scale", "leave prior out")
    n = d + knows_prior
    labels = names if chosen is None else _with_prior(names, chosen)
    columns = [
        Column(labels[i], location[i].item(), spread[i].item(), not fixed[i], missing[i].item()) for i in range(n)
    ]
    layers = of_columns(ranker.layers(), np.eye(d + 1, n), np.zeros(d + 1))  # without a prior, it is at its mean
    return Formula(tuple(columns), layers, has_prior=knows_prior)


def _names(ranker: Ranker, names: Sequence[str] | None) -> list[str]:
    own = ranker.names if isinstance(ranker, Standardised) else None
    labels = list(names or own or [f"feature_{i + 1}" for i in range(ranker.n_features)])
    if len(labels) != ranker.n_features:
        raise BadInput(f"{len(labels)} names are given", f"the ranker has {ranker.n_features} features")
    twice = next((label for label in labels if labels.count(label) > 1), None) if len(set(labels)) < len(labels) else ""
    if twice:
        raise BadInput(f"two features are named {twice!r}", "give each its own name")
    return labels


def _with_prior(names: list[str], prior: str) -> list[str]:
    if prior in names:
        raise BadInput(f"{prior!r} is a feature of the model", "the prior is another score: name it otherwise")
    return [*names, prior]


def _kind(ranker: Ranker) -> str:
    inside = ranker.ranker if isinstance(ranker, Standardised) else ranker
    return type(inside).__name__
