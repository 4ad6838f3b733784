"""An ensemble that explores where its rankers disagree (alg:model): what all P² rankers share but their fit."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import equinox as eqx
import jax.numpy as jnp

from perturank.core import Array, Interaction, Key, Query, Ranking
from perturank.hyperparameters import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, PROBABILITY, SHARE, hyper, is_zero
from perturank.parts import certainty, ordering
from perturank.parts.history_ranker import HistoryRanker, MemorySettings
from perturank.parts.objective import Loss
from perturank.parts.preferences import Inclusion, Pairs, PairSet, inferred

LOSS = "cross-entropy, the paper's; symmetric: bounded, ignores noise better; mixed: a fifth of the first"


@dataclass(frozen=True)
class P2Settings(MemorySettings):
    """What all P² rankers share."""

    n_rankers: int = hyper(2, "number of rankers in the ensemble", "N", AT_LEAST_ONE)
    noise_std: float = hyper(0.1, "standard deviation of the noise added to every click preference", "ν", NOT_NEGATIVE)
    l2: float = hyper(5.0, "strength of the pull towards the start", "λ", POSITIVE)
    pairs: PairSet = hyper("all", "independent pairs as in the paper, or all, each weighted 1/max(n⁺, n⁻)")
    inclusion: Inclusion = hyper("symmetric", "symmetric: only pairs that would be inferred either way round")
    beyond_weight: float = hyper(0.7, "weight of pairs whose unclicked document lies after the last click", "κ", SHARE)
    loss: Loss = hyper("symmetric", LOSS)
    sort: ordering.Sort = hyper("topological", "how uncertain orders are randomised")
    floor: float = hyper(0.0, "share of places that go to any document, whatever is certain", "ε", PROBABILITY)


def omega(settings: P2Settings, interaction: Interaction, key: Key) -> Pairs:
    """Return Ω_t, the preferences that these clicks tell (alg:model, line 17)."""
    return inferred(
        interaction,
        key,
        beyond=settings.examined_beyond,
        pairs=settings.pairs,
        inclusion=settings.inclusion,
        beyond_weight=settings.beyond_weight,
    )


def ranked(scores: Array, query: Query, sort: str, floor: Array | None, key: Key, k: int) -> Ranking:
    """Return the list that follows the orders on which all rankers agree; scores [V, N] (alg:model, lines 7-15)."""
    mask = query.mask
    if sort == "blocks":
        certain = certainty.unanimous(scores, mask)
        return ordering.blocks(jnp.mean(scores, 1), certain, mask, key, k, query.limits, floor).ranking(mask)
    before = certainty.n_unanimous_before(scores, mask)

    def after(pick: Array) -> Array:
        return jnp.all(scores[pick] > scores, axis=1) & mask & mask[pick]

    return ordering.topological(before, after, mask, key, k, query.limits, floor).ranking(mask)


class P2Rank(HistoryRanker):
    """An ensemble of N rankers, whichever they are."""

    settings: P2Settings

    @abstractmethod
    def scores(self, query: Query) -> Array:
        """Return every ranker's scores; [V, N]."""

    @eqx.filter_jit
    def score(self, query: Query) -> Array:
        """Return the mean score of the N rankers; [V]."""
        return jnp.mean(self.scores(query), axis=1)

    @eqx.filter_jit
    def rank(self, query: Query, key: Key, k: int = 10) -> Ranking:
        """Return a list that follows the certain orders and explores the others."""
        k = query.places(self.n_features, k)
        return ranked(self.scores(query), query, self.settings.sort, self._floor(), key, k)

    def _floor(self) -> Array | None:
        """Return ε, which is 0 before the first click: then everything is free, or a prior decides."""
        floor = self.settings.floor
        return None if is_zero(floor) else jnp.where(self.has_learned, floor, 0.0)

    @property
    @abstractmethod
    def has_learned(self) -> Array:
        """Whether a click has taught something; told without the history, which served versions do not have."""

    def faded(self, share: float) -> Self:
        """Return the same ensemble whose history weighs this share of what it did.

        Scores stay. The rankers spread as if they knew so much less, so they explore more.
        """
        return eqx.tree_at(lambda ranker: ranker.history, self, self.history.faded(share))

    @eqx.filter_jit
    def certain(self, query: Query) -> Array:
        """Return C[i, j]: all rankers put document i before j (def:certain); [V, V]."""
        return certainty.unanimous(self.scores(query), query.mask)

    def precedes(self, query: Query) -> Array:
        """Return which orders of two documents every list keeps: the certain ones, or those between blocks; [V, V]."""
        return ordering.precedes(self.settings.sort, self.score(query), self.certain(query), query.mask)
