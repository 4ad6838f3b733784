"""A ranker behind a scale: it takes raw features and the caller's own scores, whatever their units.

A column is a feature, or the prior, which is the last one. Each column has a location and a spread, estimated from
what was shown. The standardised prior is a feature of its own, so that every ranker learns its weight; times a
strength it is also the prior of the query, so that a new model begins with the caller's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from perturank.core import (
    Array,
    CertainOrders,
    Ensemble,
    Fades,
    FitsBatches,
    Forgets,
    Interaction,
    KeepsLimits,
    Key,
    LayerWise,
    LinearWidths,
    OffPolicy,
    Query,
    Ranker,
    Ranking,
    Remembers,
    Teachable,
)
from perturank.errors import BadInput
from perturank.hyperparameters import Settings
from perturank.layers import Layers, of_columns, plus_linear
from perturank.parts.past_lists import LearnsFromLists

TAIL = 0.05  # of the values on either side are left out: outliers decide neither location nor spread
NORMAL_RANGE = 3.2897  # standard deviations between these two quantiles of a normal distribution
STRAIGHT = 3.0  # spreads from the location beyond which a column grows with the logarithm alone
SAME = 1e-6  # a spread below this share of the location is rounding: the column is constant


@dataclass(frozen=True)
class Scale:
    """Location and spread of every column, [d + 1] each; a spread of 0: not known yet."""

    location: np.ndarray
    spread: np.ndarray

    @classmethod
    def unknown(cls, n: int) -> Scale:
        """Return the scale of n columns before anything was shown."""
        return cls(np.zeros(n, np.float32), np.zeros(n, np.float32))

    @classmethod
    def of(cls, columns: np.ndarray) -> Scale:
        """Return the scale of these values [n, d + 1], in which NaN is a missing value.

        The location is the mean without the tails; the spread is that of a normal distribution with the same range
        between the tails. A column of which nearly all values are equal has its standard deviation instead; one
        that is constant, or was never given, has a spread of at least 1.
        """
        values = np.asarray(columns, np.float64)
        is_given = ~np.isnan(values).all(axis=0)
        location, spread = np.zeros(values.shape[1]), np.ones(values.shape[1])
        if is_given.any():
            given = values[:, is_given]
            low, high = np.nanquantile(given, (TAIL, 1 - TAIL), axis=0)
            centre = np.nanmean(np.clip(given, low, high), axis=0)
            least = SAME * np.abs(centre)
            width = (high - low) / NORMAL_RANGE
            width = np.where(width > least, width, np.nanstd(given, axis=0))
            location[is_given] = centre
            spread[is_given] = np.where(width > least, width, np.maximum(np.abs(centre), 1.0))
        return cls(location.astype(np.float32), spread.astype(np.float32))


class Standardised(LearnsFromLists):
    """A ranker of raw features [V, d], in which NaN is a missing value; `ranker` sees d + 1 standardised columns.

    Columns that are `fixed` [d + 1] have a scale that their owner has set: they are not bent, and a missing value
    is `missing` [d + 1] there. Make one with `standardised`: it can do whatever the ranker inside can.

    `slots` [d + 1] are the features of the ranker inside at which the columns stand, where these are not the same.
    The ranker inside sees the mean, 0, at every other: features that were dropped.
    """

    takes_missing: ClassVar[Literal[True]] = True

    ranker: Any
    location: Array
    spread: Array
    fixed: Array
    missing: Array
    strength: float = eqx.field(static=True)
    names: tuple[str, ...] | None = eqx.field(static=True)
    slots: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @classmethod
    def start(cls, settings: Any, n_features: int, key: Key) -> Self:
        """Refuse: a scale needs a ranker inside."""
        raise BadInput("a standardised ranker is made of another one", "use standardised(ranker, …)")

    @property
    def settings(self) -> Settings:
        """The hyper-parameters of the ranker inside."""
        settings: Settings = self.ranker.settings
        return settings

    @property
    def n_features(self) -> int:
        """The number of raw features, without the prior."""
        return int(self.location.shape[0]) - 1

    def standardise(self, query: Query) -> Query:
        """Return the query as the ranker inside sees it.

        A column whose scale is not known yet gets that of the query's own documents. A prior that is the same for
        all documents says nothing, and counts as missing.
        """
        columns = jnp.column_stack([query.features, query.prior])
        given = ~jnp.isnan(columns) & query.mask[:, None]
        location, spread = self._scale(columns, given)
        z = (columns - location) / spread
        far = jnp.abs(z) - STRAIGHT
        bent = jnp.where(far > 0, jnp.sign(z) * (STRAIGHT + jnp.log1p(jnp.maximum(far, 0.0))), z)
        seen = jnp.where(given, jnp.where(self.fixed, z, bent), self.missing)
        prior = jnp.where(_is_constant(query.prior, query.mask), 0.0, seen[:, -1])
        features = jnp.where(query.mask[:, None], seen.at[:, -1].set(prior), 0.0)
        prior = self.strength * features[:, -1]
        if self.slots is not None:
            inside = jnp.zeros((features.shape[0], self.ranker.n_features))
            features = inside.at[:, jnp.array(self.slots)].set(features)
        return Query(features, query.mask, query.ids, prior, query.limits)

    def with_scale(self, scale: Scale) -> Self:
        """Return the same with this scale, where its owner has set none."""
        return self._with_scale(scale, self.fixed)

    def with_unknown_scale(self, scale: Scale) -> Self:
        """Return the same with this scale for the columns that have none yet."""
        return self._with_scale(scale, np.asarray(self.spread) != 0)

    @property
    def is_scale_known(self) -> bool:
        """Whether every column has a scale."""
        return bool(np.all(np.asarray(self.spread) != 0))

    def _with_scale(self, scale: Scale, stays: ArrayLike) -> Self:
        # By NumPy: JAX would compile a program for every number of columns.
        location = np.where(stays, self.location, np.asarray(scale.location, np.float32))
        spread = np.where(stays, self.spread, np.asarray(scale.spread, np.float32))
        return eqx.tree_at(lambda each: (each.location, each.spread), self, jax.device_put((location, spread)))

    @property
    def columns(self) -> tuple[int, ...]:
        """The feature of the ranker inside that each column is; [d + 1]."""
        return tuple(range(self.n_features + 1)) if self.slots is None else self.slots

    def behind(self, other: Standardised, ranker: Any) -> Standardised:
        """Return this ranker, as it is inside now, behind the columns of another that has learned nothing.

        A column that both have keeps its scale.
        """
        mine = {column: i for i, column in enumerate(self.columns)}
        kept = [(i, mine[column]) for i, column in enumerate(other.columns) if column in mine]
        scales = []
        for theirs, own in ((other.location, self.location), (other.spread, self.spread)):
            values = np.array(theirs)
            values[[i for i, _ in kept]] = np.asarray(own)[[i for _, i in kept]]
            scales.append(jax.device_put(values))
        return eqx.tree_at(lambda each: (each.ranker, each.location, each.spread), other, (ranker, *scales))

    def _scale(self, columns: Array, given: Array) -> tuple[Array, Array]:
        n = jnp.maximum(jnp.sum(given, axis=0), 1)
        mean = jnp.sum(jnp.where(given, columns, 0.0), axis=0) / n
        deviation = jnp.sqrt(jnp.sum(jnp.where(given, (columns - mean) ** 2, 0.0), axis=0) / n)
        is_known = self.spread != 0
        own = jnp.where(deviation > SAME * jnp.abs(mean), deviation, jnp.maximum(jnp.abs(mean), 1.0))
        return jnp.where(is_known, self.location, mean), jnp.where(is_known, self.spread, own)

    def _seen(self, interaction: Interaction) -> Interaction:
        return Interaction(
            self.standardise(interaction.shown), interaction.clicks, interaction.memo, interaction.rewards
        )

    def _with(self, ranker: Any) -> Self:
        return eqx.tree_at(lambda each: each.ranker, self, ranker)

    @eqx.filter_jit
    def score(self, query: Query) -> Array:
        """Return the best estimate of each document's score; [V]."""
        scores: Array = self.ranker.score(self.standardise(query))
        return scores

    @eqx.filter_jit
    def rank(self, query: Query, key: Key, k: int = 10) -> Ranking:
        """Return the list to show."""
        k = query.places(self.n_features, k)
        ranking: Ranking = self.ranker.rank(self.standardise(query), key, k)
        return ranking

    def learn(self, interaction: Interaction, key: Key) -> Self:
        """Return the ranker that has learned from these clicks; the scale stays."""
        return self._with(self.ranker.learn(_standardise_jit(self, interaction), key))


@eqx.filter_jit
def _standardise_jit(outer: Standardised, interaction: Interaction) -> Interaction:
    return outer._seen(interaction)


def _is_constant(prior: Array, mask: Array) -> Array:
    return jnp.max(jnp.where(mask, prior, -jnp.inf)) <= jnp.min(jnp.where(mask, prior, jnp.inf))


class _KnowsOrders(Standardised):
    def certain(self, query: Query) -> Array:
        found: Array = self.ranker.certain(self.standardise(query))
        return found

    def precedes(self, query: Query) -> Array:
        found: Array = self.ranker.precedes(self.standardise(query))
        return found

    def uncertain(self, query: Query) -> Array:
        found: Array = self.ranker.uncertain(self.standardise(query))
        return found


class _HasScores(Standardised):
    def scores(self, query: Query) -> Array:
        found: Array = self.ranker.scores(self.standardise(query))
        return found


class _KeepsLimits(Standardised):
    keeps_limits: ClassVar[Literal[True]] = True


class _Remembers(Standardised):
    @property
    def learning_only(self) -> tuple[str, ...]:
        return tuple(f"ranker.{name}" for name in self.ranker.learning_only)

    @property
    def is_bounded(self) -> bool:
        return bool(self.ranker.is_bounded)

    def with_room(self, n_rounds: int, k: int) -> Self:
        return self._with(self.ranker.with_room(n_rounds, k))

    def has_overflowed(self) -> Array:
        overflowed: Array = self.ranker.has_overflowed()
        return overflowed


class _Forgets(Standardised):
    def may_be_full(self) -> bool:
        return bool(self.ranker.may_be_full())

    def remembered(self, key: Key) -> Self:
        return self._with(self.ranker.remembered(key))


class _Fades(Standardised):
    def faded(self, share: float) -> Self:
        return self._with(self.ranker.faded(share))


class _FitsBatches(Standardised):
    @eqx.filter_jit
    def learn_batch(self, seen: Interaction, keys: Key, n: Array) -> Self:
        return self._with(self.ranker.learn_batch(jax.vmap(self._seen)(seen), keys, n))


class _OffPolicy(Standardised):
    def memo_of(self, shown: Query) -> Any:
        return self.ranker.memo_of(self.standardise(shown))


class _Teachable(Standardised):
    def pupil(self) -> Self:
        return self._with(self.ranker.pupil())

    def taught(self, pupil: Self, trust: float | None) -> Self:
        return self._with(self.ranker.taught(pupil.ranker, trust))


class _HasLayers(Standardised):
    def layers(self) -> Layers:
        """Return the score as layers of the standardised columns [d + 1]; the prior's strength is among them."""
        place = np.zeros((self.ranker.n_features, self.n_features + 1))
        place[list(self.columns), range(self.n_features + 1)] = 1
        inside = of_columns(self.ranker.layers(), place, np.zeros(len(place)))
        return plus_linear(inside, np.append(np.zeros(self.n_features), self.strength))


class _HasWidths(Standardised):
    @property
    def feature_covariance(self) -> Array | None:
        found: Array | None = self.ranker.feature_covariance
        return found


ABILITIES: tuple[tuple[Any, type[Standardised]], ...] = (
    (CertainOrders, _KnowsOrders),
    (Ensemble, _HasScores),
    (KeepsLimits, _KeepsLimits),
    (Remembers, _Remembers),
    (Forgets, _Forgets),
    (Fades, _Fades),
    (FitsBatches, _FitsBatches),
    (OffPolicy, _OffPolicy),
    (Teachable, _Teachable),
    (LinearWidths, _HasWidths),
    (LayerWise, _HasLayers),
)


@lru_cache
def _kind(abilities: tuple[type[Standardised], ...]) -> Any:
    """Return the class of a standardised ranker with these abilities: protocols look at the class."""
    meta: Any = type(Standardised)
    return meta("Standardised", abilities or (Standardised,), {"__module__": __name__})


def standardised(
    ranker: Ranker,
    scale: Scale,
    *,
    fixed: Sequence[bool] | None = None,
    missing: Sequence[float] | None = None,
    strength: float = 1.0,
    names: Sequence[str] | None = None,
    slots: Sequence[int] | None = None,
) -> Standardised:
    """Return a ranker of raw features around this one, which has one feature more: the prior."""
    n = len(scale.location)
    if ranker.n_features != n and slots is None:
        raise BadInput(f"the ranker has {ranker.n_features} features, the scale {n} columns", "the last is the prior")
    kind = _kind(tuple(ability for protocol, ability in ABILITIES if isinstance(ranker, protocol)))
    made: Standardised = kind(
        ranker,
        *jax.device_put((np.asarray(scale.location, np.float32), np.asarray(scale.spread, np.float32))),
        *jax.device_put((_column(fixed, n, bool), _column(missing, n, np.float32))),
        strength,
        None if names is None else tuple(names),
        None if slots is None else tuple(slots),
    )
    return made


def _column(values: Sequence[Any] | None, n: int, dtype: Any) -> np.ndarray:
    return np.zeros(n, dtype) if values is None else np.asarray(values, dtype)
