"""olRankNet (Jia and Wang, 2022): PairRank with a network, its widths from the neural tangent kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from perturank.core import Array, Interaction, Key, Query, Ranking
from perturank.hyperparameters import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SHARE, WIDTHS, hyper
from perturank.layers import Layers
from perturank.parts import batches, certainty, ordering, scoring
from perturank.parts.covariance import Covariance, Diagonal, Full
from perturank.parts.history import History
from perturank.parts.history_ranker import HistoryRanker, HistorySettings
from perturank.parts.network_fit import NetworkFit
from perturank.parts.preferences import Pairs, inferred, n_pairs_at_most
from perturank.parts.tangents import Tangents, inner, tangents
from perturank.publishing import Published


@dataclass(frozen=True)
class OlRankNetSettings(HistorySettings):
    """Hyper-parameters of olRankNet."""

    alpha: float | Literal["lemma"] = hyper(
        0.01, "width of the confidence interval, or lemma: α_t of the proof", "α", NOT_NEGATIVE
    )
    l2: float = hyper(0.1, "strength of the pull towards the start, in the fit (mλ) and in A", "λ", POSITIVE)
    covariance: Literal["full", "diagonal"] = hyper("full", "all of A, or its diagonal alone")
    widths: tuple[int, ...] = hyper((16, 16), "widths of the hidden layers", "m, L", WIDTHS)
    start: scoring.Start = hyper(
        "zero", "zero: last layer at 0; centred: the paper's √m-scaled network less its own start"
    )
    learning_rate: float = hyper(1e-3, "step size of Adam", "η", POSITIVE)
    n_steps: int = hyper(1, "gradient steps a round", "J", AT_LEAST_ONE)
    budget: int | None = hyper(
        256, "pairs a round: the newest and a sample of the rest; none: the whole history", "", AT_LEAST_ONE
    )
    scorer: str = hyper(scoring.NETWORK, scoring.SCORER)
    delta: float = hyper(0.1, "probability with which the lemma's α_t may fail", "δ", SHARE)
    noise_bound: float = hyper(0.5, "sub-Gaussian constant of click noise in the lemma's α_t", "R", POSITIVE)


class OlRankNet(HistoryRanker):
    """One network; an order is certain outside its confidence width in the space of gradients (lemma_CI)."""

    settings: OlRankNetSettings
    theta: scoring.Scorer
    theta_0: scoring.Scorer
    optimiser: Any
    covariance: Covariance

    @classmethod
    def start(cls, settings: OlRankNetSettings, n_features: int, key: Key) -> OlRankNet:
        """Return a network, or a scorer of your own, at θ₀; all scores are 0, less those of θ₀ if need be."""

        def network(k: Key) -> scoring.Network:
            return scoring.network(n_features, settings.widths, k, settings.start)

        net = scoring.row_scorer(settings.scorer, n_features, key, network)
        theta = scoring.map_arrays(lambda array: array[None], net)
        form = Full if settings.covariance == "full" else Diagonal
        return cls(
            settings,
            History.empty(n_features),
            theta,
            scoring.map_arrays(jnp.copy, theta),
            network_fit(settings).optimiser(theta),
            form.start(tangents(net, jnp.zeros((1, n_features))), settings.l2),
        )

    @eqx.filter_jit
    def score(self, query: Query) -> Array:
        """Return the scores; [V]."""
        return network_fit(self.settings).scores(self.theta, self.theta_0, query.features)[:, 0] + query.prior

    def layers(self) -> Layers:
        """Return the network as layers."""
        return network_fit(self.settings).layers(self.theta, self.theta_0)

    def gradients(self, features: Array) -> Tangents:
        """Return g(x; θ)/√m."""
        net = scoring.map_arrays(lambda array: array[0], self.theta)
        return tangents(net, features).scaled(self.settings.widths[-1] ** -0.5)

    def alpha(self) -> Array:
        """Return α: as set, or α_t of lemma:cb."""
        s = self.settings
        if not isinstance(s.alpha, str):  # lemma
            return jnp.asarray(s.alpha)
        n = scoring.n_parameters(self.theta)
        return certainty.exploration_factor(self.covariance.log_det_ratio(s.l2), n, s.delta, s.noise_bound)

    def certain(self, query: Query) -> Array:
        """Return C[i, j]: document i is certainly better than j (eq:cb); [V, V]."""
        g = self.gradients(query.features)
        kernel = self.covariance.kernel(g, inner(g, g), query.mask, self.settings.l2)
        return certainty.confident(self.score(query), self.alpha() * certainty.distances(kernel), query.mask)

    def certain_before(self, query: Query, k: int) -> Array:
        """Return the certain orders as far as they matter for the top k; [V, V].

        A exceeds any part of its sum, so widths by that are never less, and decide most pairs at once.
        """
        g, scores, alpha = self.gradients(query.features), self.score(query), self.alpha()
        products = inner(g, g)
        widest = certainty.distances(self.covariance.bound(g, products, self.settings.l2))
        sure = certainty.confident(scores, alpha * widest, query.mask)
        doubtful = certainty.doubtful(scores, sure, query.mask, k)
        needed = jnp.any(doubtful, axis=0) | jnp.any(doubtful, axis=1)
        kernel = self.covariance.kernel(g, products, needed, self.settings.l2)
        return sure | doubtful & certainty.confident(scores, alpha * certainty.distances(kernel), query.mask)

    @eqx.filter_jit
    def rank(self, query: Query, key: Key, k: int = 10) -> Ranking:
        """Return a list that follows the certain orders and explores the others."""
        k = query.places(self.n_features, k)
        certain = self.certain_before(query, k)
        before = jnp.sum(certain, axis=0, dtype=jnp.int32)
        shown = ordering.topological(before, lambda pick: certain[pick], query.mask, key, k, query.limits)
        return shown.ranking(query.mask)

    def with_room(self, n_rounds: int, k: int) -> OlRankNet:
        """Return the same ranker with room for so many more rounds."""
        covariance = self.covariance.with_room(n_rounds, n_pairs_at_most(k, self.settings.pairs))
        return eqx.tree_at(lambda r: r.covariance, super().with_room(n_rounds, k), covariance)

    def has_overflowed(self) -> Array:
        """Return whether more was learned in a compiled program than there was room for."""
        return self.history.has_overflowed | self.covariance.has_overflowed

    @eqx.filter_jit
    def learn_batch(self, seen: Interaction, keys: Key, n: Array) -> OlRankNet:
        """Return the network after one fit to all clicks, the first n of these interactions [B, …] among them."""
        s = self.settings

        def pairs(each: Interaction, lots: Key) -> Pairs:
            return inferred(each, lots, beyond=s.examined_beyond, pairs=s.pairs, inclusion=s.inclusion)

        history, newest = self.history.add_batch(seen, pairs, keys, n)
        last = jax.random.split(keys[jnp.maximum(n - 1, 0)], 3)[2]
        theta, optimiser = network_fit(s).fitted(self.theta, self.theta_0, self.optimiser, history, newest, last, last)

        def widen(i: Array, covariance: Covariance) -> Covariance:
            each, lots = batches.at(seen, i), jax.random.split(keys[i], 3)
            told = pairs(each, lots[0])
            news = jnp.where(newest[i] < history.weight.shape[0], told.weight, 0.0)
            gradients = self.gradients(each.shown.features)
            return covariance.widened(gradients, Pairs(told.winner, told.loser, news), s.l2)

        covariance = batches.folded(widen, batches.size(seen), n, self.covariance)
        return OlRankNet(s, history, theta, self.theta_0, optimiser, covariance)


def network_fit(s: OlRankNetSettings) -> NetworkFit:
    """Return how the network of these settings is fitted (eq:loss)."""
    centred = s.start == "centred" or s.scorer != scoring.NETWORK
    return NetworkFit(s.learning_rate, s.n_steps, s.budget, s.widths[-1] * s.l2, centred)


PUBLISHED = [
    Published(
        "olranknet",
        "olRankNet: network that explores inside its confidence widths",
        OlRankNetSettings(),
        OlRankNet,
    ),
    Published(
        "olranknet-diag",
        "olRankNet with the diagonal of its covariance alone",
        OlRankNetSettings(covariance="diagonal", widths=(100, 100)),
        OlRankNet,
    ),
]
