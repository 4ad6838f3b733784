"""PairRank (Jia et al., 2021): a pairwise logistic ranker that explores inside its confidence widths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax

from perturank import layers
from perturank.core import Array, Interaction, Key, Query, Ranking
from perturank.hyperparameters import NOT_NEGATIVE, POSITIVE, SHARE, hyper
from perturank.layers import Layers
from perturank.parts import batches, certainty, linear_fit, ordering
from perturank.parts.history import History
from perturank.parts.history_ranker import HistoryRanker, MemorySettings
from perturank.parts.preferences import inferred
from perturank.publishing import Published


@dataclass(frozen=True)
class PairRankSettings(MemorySettings):
    """Hyper-parameters of PairRank."""

    alpha: float | Literal["lemma"] = hyper(
        0.01, "width of the confidence interval, or lemma: α_t of the proof", "α", NOT_NEGATIVE
    )
    l2: float = hyper(10.0, "strength of the pull towards 0, in the fit and in A", "λ", POSITIVE)
    objective: Literal["sum", "mean"] = hyper("sum", "sum of pair losses + λ/2‖θ‖² (the paper), or their mean + λ‖θ‖²")
    covariance: Literal["full", "diagonal"] = hyper("full", "all of A, or its diagonal alone")
    sort: ordering.Sort = hyper("topological", "how uncertain orders are randomised")
    delta: float = hyper(0.1, "probability with which the lemma's α_t may fail", "δ", SHARE)
    noise_bound: float = hyper(0.5, "sub-Gaussian constant of click noise in the lemma's α_t", "R", POSITIVE)


class PairRank(HistoryRanker):
    """Fits all preferences so far each round; an order is certain outside its confidence width."""

    settings: PairRankSettings
    theta: Array  # [d, 1]: an ensemble of one, fitted like any other
    gram: Array  # A - λI, [d, d]
    hessian: linear_fit.AnyHessian  # of an earlier fit

    @classmethod
    def start(cls, settings: PairRankSettings, n_features: int, key: Key) -> PairRank:
        """Return a ranker at 0; the key changes nothing."""
        zero, gram = jnp.zeros((n_features, 1)), jnp.zeros((n_features, n_features))
        history = History.empty(n_features, memory=settings.memory)
        return cls(settings, history, zero, gram, linear_fit.unknown(n_features)[1])

    @property
    def feature_covariance(self) -> Array:
        """A of eq:cb; [d, d]."""
        return self.gram + self.settings.l2 * jnp.eye(self.n_features)

    @eqx.filter_jit
    def score(self, query: Query) -> Array:
        """Return the scores; [V]."""
        return (query.features @ self.theta)[:, 0] + query.prior

    def layers(self) -> Layers:
        """Return the scores as one layer."""
        return layers.linear(np.asarray(self.theta)[:, 0])

    def certain(self, query: Query) -> Array:
        """Return C[i, j]: document i is certainly better than j (eq:cb); [V, V]."""
        s, covariance = self.settings, self.feature_covariance
        if s.covariance == "full":
            kernel = certainty.kernel_full(query.features, covariance)
        else:
            kernel = certainty.kernel_diagonal(query.features, jnp.diagonal(covariance))
        return certainty.confident(self.score(query), self.alpha(covariance) * certainty.distances(kernel), query.mask)

    def precedes(self, query: Query) -> Array:
        """Return which orders of two documents every list keeps: the certain ones, or those between blocks; [V, V]."""
        return ordering.precedes(self.settings.sort, self.score(query), self.certain(query), query.mask)

    def alpha(self, covariance: Array) -> Array:
        """Return α: as set, or α_t of lemma:cb."""
        s = self.settings
        if not isinstance(s.alpha, str):  # lemma
            return jnp.asarray(s.alpha)
        if s.covariance == "full":
            log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(covariance / s.l2))))
        else:
            log_det = jnp.sum(jnp.log(jnp.diagonal(covariance) / s.l2))
        return certainty.exploration_factor(log_det, self.n_features, s.delta, s.noise_bound)

    @eqx.filter_jit
    def rank(self, query: Query, key: Key, k: int = 10) -> Ranking:
        """Return a list that follows the certain orders and explores the others."""
        k, certain = query.places(self.n_features, k), self.certain(query)
        if self.settings.sort == "blocks":
            certain = certainty.closure(certain)
            return ordering.blocks(self.score(query), certain, query.mask, key, k, query.limits).ranking(query.mask)
        before = jnp.sum(certain, axis=0, dtype=jnp.int32)
        shown = ordering.topological(before, lambda pick: certain[pick], query.mask, key, k, query.limits)
        return shown.ranking(query.mask)

    @eqx.filter_jit
    def learn_batch(self, seen: Interaction, keys: Key, n: Array) -> PairRank:
        """Return the ranker refitted once to all clicks, the first n of these interactions [B, …] among them."""
        s = self.settings

        def add(i: Array, state: tuple[History, Array, Array]) -> tuple[History, Array, Array]:
            history, gram, taught = state
            each = batches.at(seen, i)
            pairs = inferred(each, keys[i], beyond=s.examined_beyond, pairs=s.pairs, inclusion=s.inclusion)
            history, slots = history.add(each.shown, pairs, keys[i])
            news = jnp.where(slots < history.weight.shape[0], pairs.weight, 0.0)
            x = each.shown.features[pairs.winner] - each.shown.features[pairs.loser]
            return history, gram + (x * news[:, None]).T @ x, taught | jnp.any(news > 0)

        start = *self.memory, jnp.asarray(False)
        history, gram, taught = batches.folded(add, batches.size(seen), n, start)
        l2 = jnp.asarray(s.l2) if s.objective == "sum" else 2 * s.l2 * jnp.sum(history.weight)
        problem = linear_fit.LinearProblem(history, l2, jnp.zeros_like(self.theta), "cross-entropy")
        theta, hessian = lax.cond(
            taught, lambda: linear_fit.newton(problem, self.theta, self.hessian), lambda: (self.theta, self.hessian)
        )
        return PairRank(s, history, theta, gram, hessian)

    @property
    def memory(self) -> tuple[History, Array]:
        """The history and Σ w x xᵀ."""
        return self.history, self.gram

    def newer_half(self, key: Key) -> tuple[History, Array]:
        """Return these without what is forgotten."""
        history = self.history.newer_half()
        return history, linear_fit.gram(history)


PUBLISHED = [
    Published(
        "pairrank",
        "PairRank: logistic ranker that explores inside its confidence widths",
        PairRankSettings(),
        PairRank,
    ),
    Published(
        "pairrank-diag",
        "PairRank with the diagonal of its covariance alone",
        PairRankSettings(covariance="diagonal"),
        PairRank,
    ),
]
