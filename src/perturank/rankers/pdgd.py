"""PDGD, pairwise differentiable gradient descent (Oosterhuis and de Rijke, 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from perturank.core import Array, Interaction, Key, Query, Ranking
from perturank.hyperparameters import NOT_NEGATIVE, POSITIVE, SHARE, WIDTHS, Settings, hyper
from perturank.layers import Layers
from perturank.parts import ordering, preferences, scoring
from perturank.parts.past_lists import LearnsFromLists
from perturank.publishing import Published


@dataclass(frozen=True)
class PDGDSettings(Settings):
    """Hyper-parameters of PDGD."""

    learning_rate: float = hyper(0.1, "size of a gradient step", "η", POSITIVE)
    decay: float = hyper(0.999977, "factor on the step size after every update", "", SHARE)
    examined_beyond: int = hyper(
        1, "unclicked documents after the last click that count as examined", "l", NOT_NEGATIVE
    )


@dataclass(frozen=True)
class NeuralPDGDSettings(PDGDSettings):
    """Hyper-parameters of PDGD with a network."""

    learning_rate: float = hyper(0.01, "size of a gradient step", "η", POSITIVE)
    widths: tuple[int, ...] = hyper((100, 100), "widths of the hidden layers", "m, L", WIDTHS)
    scorer: str = hyper(scoring.NETWORK, scoring.SCORER)


class PDGD(LearnsFromLists):
    """A Plackett–Luce ranker that ascends an unbiased estimate of the preference gradient.

    A scorer that looks at the whole list ranks all candidates; it learns from the shown documents as a list of their
    own, with the probabilities of the list that was shown.
    """

    keeps_limits: ClassVar[Literal[True]] = True
    settings: PDGDSettings
    n_features: int = eqx.field(static=True)
    theta: scoring.Scorer
    rate: Array

    @classmethod
    def start(cls, settings: PDGDSettings, n_features: int, key: Key) -> PDGD:
        """Return a ranker whose scores are all 0, unless its own scorer starts otherwise: its lists are random."""
        theta: scoring.Scorer = scoring.linear(n_features)
        if isinstance(settings, NeuralPDGDSettings):
            widths = settings.widths
            theta = scoring.scorer(settings.scorer, n_features, key, lambda k: scoring.network(n_features, widths, k))
        return cls(settings, n_features, theta, jnp.asarray(settings.learning_rate, jnp.float32))

    @property
    def is_row_wise(self) -> bool:
        """Whether what else is in the list changes no score."""
        return self.theta.is_row_wise

    @eqx.filter_jit
    def score(self, query: Query) -> Array:
        """Return the scores; [V]."""
        return scoring.list_scores(self.theta, query.features, query.mask) + query.prior

    def layers(self) -> Layers:
        """Return the scorer as layers."""
        return scoring.scorer_layers(self.theta)

    @eqx.filter_jit
    def rank(self, query: Query, key: Key, k: int = 10) -> Ranking:
        """Return a list drawn from the Plackett–Luce model of the scores."""
        k, scores = query.places(self.n_features, k), self.score(query)
        if query.limits is None:
            shown, log_left = ordering.plackett_luce(scores, query.mask, key, k)
        else:
            shown, log_left = ordering.limited_plackett_luce(scores, query.mask, key, k, query.limits)
        return shown.ranking(query.mask, (scores[shown.order], log_left))

    def memo_of(self, shown: Query) -> tuple[Array, Array]:
        """Return the memo of a list that another ranker showed, as if there had been no other documents; [k], [k]."""
        scores = jnp.where(shown.mask, self.score(shown), -jnp.inf)
        log_left = jax.lax.cumlogsumexp(scores, reverse=True)
        return jnp.where(shown.mask, scores, 0.0), jnp.where(shown.mask, log_left, 0.0)

    @eqx.filter_jit
    def learn(self, interaction: Interaction, key: Key) -> PDGD:
        """Return the ranker after one debiased gradient step for every inferred preference."""
        scores, log_left = interaction.memo
        weights = preferences.preference_weights(interaction, self.settings.examined_beyond)
        p = jax.nn.sigmoid(scores[:, None] - scores[None, :])
        pull = jnp.where(weights > 0, weights * reversal(scores, log_left) * p * (1 - p), 0.0)
        passed = jnp.sum(pull, axis=1) - jnp.sum(pull, axis=0)
        theta = scoring.ascend(self.theta, interaction.shown, passed, self.rate)
        rate = jnp.where(jnp.any(weights > 0), self.rate * self.settings.decay, self.rate)
        return PDGD(self.settings, self.n_features, theta, rate)


def reversal(scores: Array, log_left: Array) -> Array:
    """Return ρ[i, j] = P(R*) / (P(R) + P(R*)), R* being the list with places i and j exchanged; [k] -> [k, k].

    Exchanging a and b changes the normalisers of the places after a up to b, and nothing else:
    there the document of place a is left instead of that of place b.
    """
    places = jnp.arange(scores.shape[0])
    upper, lower = jnp.minimum(places[:, None], places[None, :]), jnp.maximum(places[:, None], places[None, :])
    share = jnp.exp(scores[:, None] - log_left[None, :])  # of each document among what is left at each place
    change = jnp.maximum(1 + share[upper] - share[lower], share[upper])  # of what is left, by the exchange
    between = (places > upper[:, :, None]) & (places <= lower[:, :, None])
    return 1 / (1 + jnp.prod(jnp.where(between, change, 1.0), axis=-1))  # the product is P(R) / P(R*)


PUBLISHED = [
    Published(
        "pdgd-linear",
        "PDGD with a linear ranker: Plackett–Luce lists, debiased pairwise gradient",
        PDGDSettings(),
        PDGD,
    ),
    Published("pdgd-neural", "PDGD with a network", NeuralPDGDSettings(), PDGD),
]
