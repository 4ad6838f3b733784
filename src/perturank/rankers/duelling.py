"""DBGD (Yue and Joachims, 2009) and MGD (Schuth et al., 2016): duels between a ranker and its neighbours.

DBGD is MGD with one candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from perturank.core import Array, Interaction, Key, Query, Ranking
from perturank.hyperparameters import AT_LEAST_ONE, POSITIVE, WIDTHS, Settings, hyper
from perturank.layers import Layers
from perturank.parts import draws, ordering, scoring
from perturank.parts.past_lists import LearnsFromLists
from perturank.publishing import Published


@dataclass(frozen=True)
class DuellingSettings(Settings):
    """Hyper-parameters of DBGD and MGD."""

    n_candidates: int = hyper(1, "random directions tried each round (DBGD: 1)", "", AT_LEAST_ONE)
    step: float = hyper(1.0, "how far from the ranker a candidate is", "δ", POSITIVE)
    learning_rate: float = hyper(0.01, "how far the ranker moves towards the winners", "η", POSITIVE)
    interleaving: Literal["team draft", "probabilistic"] = hyper("team draft", "how the lists are merged")
    tau: float = hyper(3.0, "probabilistic interleaving: a document of rank r weighs 1/r^τ", "τ", POSITIVE)


@dataclass(frozen=True)
class NeuralDuellingSettings(DuellingSettings):
    """Hyper-parameters of DBGD and MGD with a network."""

    widths: tuple[int, ...] = hyper((100, 100), "widths of the hidden layers", "m, L", WIDTHS)


class Duelling(LearnsFromLists):
    """Interleaves its list with those of random neighbours and moves towards those that get more clicks."""

    is_row_wise: ClassVar[Literal[True]] = True
    settings: DuellingSettings
    n_features: int = eqx.field(static=True)
    theta: scoring.Scorer

    @classmethod
    def start(cls, settings: DuellingSettings, n_features: int, key: Key) -> Duelling:
        """Return a ranker whose scores are all 0."""
        if isinstance(settings, NeuralDuellingSettings):
            return cls(settings, n_features, scoring.network(n_features, settings.widths, key))
        return cls(settings, n_features, scoring.linear(n_features))

    @eqx.filter_jit
    def score(self, query: Query) -> Array:
        """Return the scores; [V]."""
        return self.theta(query.features) + query.prior

    def layers(self) -> Layers:
        """Return the scorer as layers."""
        return scoring.scorer_layers(self.theta)

    @eqx.filter_jit
    def rank(self, query: Query, key: Key, k: int = 10) -> Ranking:
        """Return the lists of the ranker and its candidates, interleaved; the memo names directions and teams."""
        s, mask, k = self.settings, query.mask, query.places(self.n_features, k)
        keys = jax.random.split(key, 3)
        # The ranker itself is the candidate that took no step: one product scores all.
        steps = jax.tree.map(
            lambda u: jnp.pad(s.step * u, ((1, 0), *((0, 0),) * (u.ndim - 1))), self._directions(keys[0])
        )
        candidates = eqx.apply_updates(self.theta, steps)
        scores = (scoring.ensemble_scores(candidates, query.features) + query.prior[:, None]).T
        if s.interleaving == "team draft":
            shown, teams = ordering.team_draft(ordering.tops(scores, mask, keys[1], k), mask, keys[2], k)
            shares = (teams == jnp.arange(s.n_candidates + 1)[:, None]).astype(jnp.float32)
        else:
            shown, shares = ordering.probabilistic_interleaving(scores, mask, keys[1], k, s.tau)
        return shown.ranking(mask, (jax.random.key_data(keys[0]), shares))

    def _directions(self, key: Key) -> Any:
        """Return uniform directions on the unit sphere of the parameters; every leaf [n_candidates, …]."""
        leaves, shape = jax.tree.flatten(eqx.filter(self.theta, eqx.is_array))
        n = self.settings.n_candidates
        drawn = [
            draws.normal(k, (n, *leaf.shape))
            for k, leaf in zip(jax.random.split(key, len(leaves)), leaves, strict=True)
        ]
        norm = jnp.sqrt(sum(jnp.sum(u**2, axis=tuple(range(1, u.ndim))) for u in drawn))
        return jax.tree.unflatten(shape, [u / norm.reshape(n, *[1] * (u.ndim - 1)) for u in drawn])

    @eqx.filter_jit
    def learn(self, interaction: Interaction, key: Key) -> Duelling:
        """Return the ranker moved towards the mean of the directions that got more clicks than it did."""
        lots, shares = interaction.memo
        gain = interaction.clicks if interaction.rewards is None else interaction.rewards.gain
        credit = shares @ gain.astype(jnp.float32)
        wins = (credit[1:] > credit[0]).astype(jnp.float32)
        weight = self.settings.learning_rate * wins / jnp.maximum(jnp.sum(wins), 1.0)
        trained, fixed = eqx.partition(self.theta, eqx.is_array)

        def moved() -> Any:
            directions = self._directions(jax.random.wrap_key_data(lots))
            return jax.tree.map(lambda leaf, u: leaf + jnp.tensordot(weight, u, 1), trained, directions)

        theta = lax.cond(jnp.any(wins > 0), moved, lambda: trained)
        return Duelling(self.settings, self.n_features, eqx.combine(theta, fixed))


PUBLISHED = [
    Published("dbgd-linear", "DBGD: duels with one random neighbour, linear", DuellingSettings(), Duelling),
    Published("dbgd-neural", "DBGD with a network", NeuralDuellingSettings(), Duelling),
    Published(
        "mgd-linear",
        "MGD: multileaved duels with nine neighbours, linear",
        DuellingSettings(n_candidates=9),
        Duelling,
    ),
    Published("mgd-neural", "MGD with a network", NeuralDuellingSettings(n_candidates=9), Duelling),
]
