"""ε-greedy lists with pairwise stochastic gradient descent (Hofmann, Whiteson and de Rijke, 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from perturank.core import Array, Interaction, Key, Query, Ranking
from perturank.hyperparameters import NOT_NEGATIVE, POSITIVE, PROBABILITY, WIDTHS, Settings, hyper
from perturank.layers import Layers
from perturank.parts import ordering, preferences, scoring
from perturank.parts.past_lists import LearnsFromLists
from perturank.publishing import Published


@dataclass(frozen=True)
class EpsilonGreedySettings(Settings):
    """Hyper-parameters of ε-greedy."""

    epsilon: float = hyper(0.1, "probability that a place is filled at random", "ε", PROBABILITY)
    learning_rate: float = hyper(0.01, "size of a gradient step on the pairs of one list", "η", POSITIVE)
    examined_beyond: int = hyper(
        1, "unclicked documents after the last click that count as examined", "l", NOT_NEGATIVE
    )


@dataclass(frozen=True)
class NeuralEpsilonGreedySettings(EpsilonGreedySettings):
    """Hyper-parameters of ε-greedy with a network."""

    learning_rate: float = hyper(0.003, "size of a gradient step on the pairs of one list", "η", POSITIVE)
    widths: tuple[int, ...] = hyper((100, 100), "widths of the hidden layers", "m, L", WIDTHS)


class EpsilonGreedy(LearnsFromLists):
    """Shows the best list but for random places, and takes one logistic gradient step on each list's pairs."""

    keeps_limits: ClassVar[Literal[True]] = True
    is_row_wise: ClassVar[Literal[True]] = True
    settings: EpsilonGreedySettings
    n_features: int = eqx.field(static=True)
    theta: scoring.Scorer

    @classmethod
    def start(cls, settings: EpsilonGreedySettings, n_features: int, key: Key) -> EpsilonGreedy:
        """Return a ranker whose scores are all 0: ties are broken at random."""
        if isinstance(settings, NeuralEpsilonGreedySettings):
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
        """Return the best list with each place random with probability ε."""
        k = query.places(self.n_features, k)
        epsilon = self.settings.epsilon
        return ordering.epsilon_greedy(self.score(query), query.mask, epsilon, key, k, query.limits).ranking(query.mask)

    @eqx.filter_jit
    def learn(self, interaction: Interaction, key: Key) -> EpsilonGreedy:
        """Return the ranker after one step down the logistic loss of the list's preferences."""
        shown = interaction.shown
        weights = preferences.preference_weights(interaction, self.settings.examined_beyond)
        scores = self.score(shown)
        pull = weights * jax.nn.sigmoid(scores[None, :] - scores[:, None])  # 1 - σ(f_ij) for i preferred over j
        passed = jnp.sum(pull, axis=1) - jnp.sum(pull, axis=0)
        theta = scoring.ascend(self.theta, shown, passed, self.settings.learning_rate)
        return EpsilonGreedy(self.settings, self.n_features, theta)


PUBLISHED = [
    Published(
        "epsilon-greedy-linear",
        "best list with random places; pairwise gradient descent, linear",
        EpsilonGreedySettings(),
        EpsilonGreedy,
    ),
    Published(
        "epsilon-greedy-neural",
        "best list with random places; pairwise gradient descent, network",
        NeuralEpsilonGreedySettings(),
        EpsilonGreedy,
    ),
]
