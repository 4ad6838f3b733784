"""Random lists: the floor under every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp

from perturank.core import Array, Interaction, Key, Query, Ranking
from perturank.hyperparameters import Settings
from perturank.parts import ordering
from perturank.parts.past_lists import LearnsFromLists
from perturank.publishing import Published


@dataclass(frozen=True)
class RandomSettings(Settings):
    """Nothing to set."""


class Random(LearnsFromLists):
    """Shows uniformly random lists and learns nothing; with a prior it scores by the prior alone."""

    keeps_limits: ClassVar[Literal[True]] = True
    is_row_wise: ClassVar[Literal[True]] = True
    settings: RandomSettings
    n_features: int = eqx.field(static=True)

    @classmethod
    def start(cls, settings: RandomSettings, n_features: int, key: Key) -> Random:
        """Return the ranker; the key changes nothing."""
        return cls(settings, n_features)

    @eqx.filter_jit
    def score(self, query: Query) -> Array:
        """Return the prior: no document is known to be better; [V]."""
        return query.prior

    @eqx.filter_jit
    def rank(self, query: Query, key: Key, k: int = 10) -> Ranking:
        """Return a uniformly random list."""
        flat, k = jnp.zeros(query.mask.shape[0]), query.places(self.n_features, k)
        if query.limits is None:
            return ordering.plackett_luce(flat, query.mask, key, k)[0].ranking(query.mask)
        return ordering.limited_plackett_luce(flat, query.mask, key, k, query.limits)[0].ranking(query.mask)

    def learn(self, interaction: Interaction, key: Key) -> Random:
        """Return itself."""
        return self


PUBLISHED = [Published("random", "uniformly random lists; learns nothing", RandomSettings(), Random)]
