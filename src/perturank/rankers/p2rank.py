"""P²LinRank and P²NeurRank: an ensemble trained on perturbed clicks (alg:model).

An order is certain where all N rankers agree; everything else is explored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax

from perturank.core import Array, Interaction, Key, Query, Ranking
from perturank.hyperparameters import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SHARE, WIDTHS, Settings, hyper
from perturank.parts import certainty, fitting, ordering, scoring
from perturank.parts.history import History
from perturank.parts.objective import Loss
from perturank.parts.preferences import Inclusion, Pairs, PairSet, inferred, n_pairs_at_most
from perturank.publishing import Published


@dataclass(frozen=True)
class P2Settings(Settings):
    """What P²LinRank and P²NeurRank share."""

    n_rankers: int = hyper(2, "number of rankers in the ensemble", "N", AT_LEAST_ONE)
    noise_std: float = hyper(0.1, "standard deviation of the noise added to every click preference", "ν", NOT_NEGATIVE)
    noise: Literal["fresh", "frozen"] = hyper(
        "fresh", "redrawn for the whole history each round, or once per pair and kept"
    )
    l2: float = hyper(30.0, "strength of the pull towards the start", "λ", POSITIVE)
    examined_beyond: int = hyper(
        1, "unclicked documents after the last click that count as examined", "l", NOT_NEGATIVE
    )
    pairs: PairSet = hyper("all", "independent pairs as in the paper, or all, each weighted 1/max(n⁺, n⁻)")
    inclusion: Inclusion = hyper("symmetric", "symmetric: only pairs that would be inferred either way round")
    beyond_weight: float = hyper(1.0, "weight of pairs whose unclicked document lies after the last click", "κ", SHARE)
    loss: Loss = hyper("cross-entropy", "the paper's, or a bounded symmetric one that ignores noise better")
    sort: Literal["topological", "blocks"] = hyper("topological", "how uncertain orders are randomised")


@dataclass(frozen=True)
class P2LinSettings(P2Settings):
    """Hyper-parameters of P²LinRank."""


@dataclass(frozen=True)
class P2NeurSettings(P2Settings):
    """Hyper-parameters of P²NeurRank."""

    perturb: Literal["clicks", "clicks+parameters"] = hyper(
        "clicks", "perturb the regulariser too (the appendix's variant)"
    )
    widths: tuple[int, ...] = hyper((100, 100), "widths of the hidden layers", "m, L", WIDTHS)
    start: scoring.Start = hyper(
        "zero", "zero: last layer at 0; centred: the paper's √m-scaled network less its own start"
    )
    shortcut: bool = hyper(False, "add a linear path beside the network (not in the paper)")
    learning_rate: float = hyper(1e-3, "step size of Adam", "η", POSITIVE)
    n_steps: int = hyper(1, "gradient steps a round", "J", AT_LEAST_ONE)
    budget: int | None = hyper(
        256, "pairs a round: the newest and a sample of the rest; none: the whole history", "", AT_LEAST_ONE
    )


def omega(settings: P2Settings, interaction: Interaction, key: Key) -> Pairs:
    """Return Ω_t, the preferences that these clicks tell (alg:model, line 17)."""
    return inferred(
        interaction.clicks,
        interaction.shown.mask,
        key,
        beyond=settings.examined_beyond,
        pairs=settings.pairs,
        inclusion=settings.inclusion,
        beyond_weight=settings.beyond_weight,
    )


def ranked(scores: Array, mask: Array, settings: P2Settings, key: Key, k: int) -> Ranking:
    """Return the list that follows the orders on which all rankers agree; scores [V, N] (alg:model, lines 7-15)."""
    k = min(k, mask.shape[0])
    if settings.sort == "blocks":
        certain = certainty.unanimous(scores, mask)
        return ordering.blocks(jnp.mean(scores, 1), certain, mask, key, k).ranking(mask)
    before = certainty.n_unanimous_before(scores, mask)

    def after(pick: Array) -> Array:
        return jnp.all(scores[pick] > scores, axis=1) & mask & mask[pick]

    return ordering.topological(before, after, mask, key, k).ranking(mask)


def _roomy(history: History, settings: P2Settings, n_rounds: int, k: int) -> History:
    return history.with_room(n_rounds * k, n_rounds * n_pairs_at_most(k, settings.pairs))


class P2LinRank(eqx.Module):
    """P² with N linear rankers, each fitted to convergence every round."""

    settings: P2LinSettings = eqx.field(static=True)
    theta: Array  # [d, N]
    gram: Array  # Σ w x xᵀ over all pairs, [d, d]
    lots: Array  # data of the key of all noise that is drawn once and kept
    history: History

    @classmethod
    def start(cls, settings: P2LinSettings, n_features: int, key: Key) -> P2LinRank:
        """Return N rankers at 0: nothing is certain before the first click."""
        n_frozen = settings.n_rankers if settings.noise == "frozen" else None
        zero = jnp.zeros((n_features, settings.n_rankers))
        gram = jnp.zeros((n_features, n_features))
        return cls(settings, zero, gram, jax.random.key_data(key), History.empty(n_features, n_frozen))

    @property
    def n_features(self) -> int:
        """The number of features of a document."""
        return self.history.documents.shape[1]

    def scores(self, query: Query) -> Array:
        """Return every ranker's scores; [V, N]."""
        return query.features @ self.theta + query.prior[:, None]

    @eqx.filter_jit
    def score(self, query: Query) -> Array:
        """Return the mean score of the N rankers; [V]."""
        return jnp.mean(self.scores(query), axis=1)

    @eqx.filter_jit
    def rank(self, query: Query, key: Key, k: int = 10) -> Ranking:
        """Return a list that follows the certain orders and explores the others."""
        return ranked(self.scores(query), query.mask, self.settings, key, k)

    @eqx.filter_jit
    def uncertain(self, query: Query) -> Array:
        """Return the share of pairs on which the rankers disagree."""
        return certainty.uncertain_share(certainty.unanimous(self.scores(query), query.mask), query.mask)

    def with_room(self, n_rounds: int, k: int) -> P2LinRank:
        """Return the same ranker with room for so many more rounds."""
        return eqx.tree_at(lambda r: r.history, self, _roomy(self.history, self.settings, n_rounds, k))

    def learn(self, interaction: Interaction, key: Key) -> P2LinRank:
        """Return the ensemble refitted to all clicks so far, perturbed (eq:obj)."""
        return self.with_room(1, interaction.clicks.shape[0])._learn(interaction, key)

    @eqx.filter_jit
    def _learn(self, interaction: Interaction, key: Key) -> P2LinRank:
        s = self.settings
        keys = jax.random.split(key, 4)
        pairs = omega(s, interaction, keys[0])
        history, slots = self.history.add(interaction.shown, pairs, keys[1], s.noise_std)
        news = jnp.where(slots < history.weight.shape[0], pairs.weight, 0.0)
        x = interaction.shown.features[pairs.winner] - interaction.shown.features[pairs.loser]
        gram = self.gram + (x * news[:, None]).T @ x

        def fit() -> Array:
            targets = history.targets(s.noise_std, s.n_rankers, keys[2])
            # The regulariser counts as d pairs √λ e_l (eq:linloss), and is perturbed like them.
            lots = keys[3] if s.noise == "fresh" else jax.random.wrap_key_data(self.lots)
            pull = math.sqrt(s.l2) * s.noise_std * jax.random.normal(lots, self.theta.shape)
            return fitting.newton(history, self.theta, targets, jnp.asarray(s.l2), pull, gram, s.loss)

        theta = lax.cond(jnp.any(news > 0), fit, lambda: self.theta)
        return P2LinRank(s, theta, gram, self.lots, history)


class P2NeurRank(eqx.Module):
    """P² with N networks, each taking a few Adam steps a round from where it was."""

    settings: P2NeurSettings = eqx.field(static=True)
    theta: scoring.Scorer
    theta_0: scoring.Scorer
    optimiser: Any
    lots: Array  # data of the key of all noise that is drawn once and kept
    history: History

    @classmethod
    def start(cls, settings: P2NeurSettings, n_features: int, key: Key) -> P2NeurRank:
        """Return N networks at their θ₀, all of whose scores are 0."""

        def one(k: Key) -> scoring.Scorer:
            return scoring.network(n_features, settings.widths, k, settings.start, settings.shortcut)

        theta = scoring.ensemble(one, settings.n_rankers, key)
        n_frozen = settings.n_rankers if settings.noise == "frozen" else None
        state = optax.adam(settings.learning_rate).init(eqx.filter(theta, eqx.is_array))
        return cls(
            settings,
            theta,
            jax.tree.map(jnp.copy, theta),
            state,
            jax.random.key_data(key),
            History.empty(n_features, n_frozen),
        )

    def _network_scores(self, theta: scoring.Scorer, features: Array) -> Array:
        scores = scoring.ensemble_scores(theta, features)
        if self.settings.start == "centred":
            scores = scores - scoring.ensemble_scores(self.theta_0, features)
        return scores

    @property
    def n_features(self) -> int:
        """The number of features of a document."""
        return self.history.documents.shape[1]

    def scores(self, query: Query) -> Array:
        """Return every ranker's scores; [V, N]."""
        return self._network_scores(self.theta, query.features) + query.prior[:, None]

    @eqx.filter_jit
    def score(self, query: Query) -> Array:
        """Return the mean score of the N rankers; [V]."""
        return jnp.mean(self.scores(query), axis=1)

    @eqx.filter_jit
    def rank(self, query: Query, key: Key, k: int = 10) -> Ranking:
        """Return a list that follows the certain orders and explores the others."""
        return ranked(self.scores(query), query.mask, self.settings, key, k)

    @eqx.filter_jit
    def uncertain(self, query: Query) -> Array:
        """Return the share of pairs on which the rankers disagree."""
        return certainty.uncertain_share(certainty.unanimous(self.scores(query), query.mask), query.mask)

    def with_room(self, n_rounds: int, k: int) -> P2NeurRank:
        """Return the same ranker with room for so many more rounds."""
        return eqx.tree_at(lambda r: r.history, self, _roomy(self.history, self.settings, n_rounds, k))

    def learn(self, interaction: Interaction, key: Key) -> P2NeurRank:
        """Return the ensemble after a few steps on all clicks so far, perturbed (eq:obj)."""
        return self.with_room(1, interaction.clicks.shape[0])._learn(interaction, key)

    @eqx.filter_jit
    def _learn(self, interaction: Interaction, key: Key) -> P2NeurRank:
        s = self.settings
        keys = jax.random.split(key, 3)
        history, slots = self.history.add(
            interaction.shown, pairs := omega(s, interaction, keys[0]), keys[1], s.noise_std
        )
        taught = jnp.any((pairs.weight > 0) & (slots < history.weight.shape[0]))
        trained, fixed = eqx.partition(self.theta, eqx.is_array)

        def fit() -> tuple[Any, Any]:
            return lax.fori_loop(
                0, s.n_steps, lambda i, state: step(state, jax.random.fold_in(keys[2], i)), (trained, self.optimiser)
            )

        def step(state: tuple[Any, Any], lots: Key) -> tuple[Any, Any]:
            theta, optimiser = state
            gradient = self._gradient(history, slots, eqx.combine(theta, fixed), keys[2] if s.budget is None else lots)
            updates, optimiser = optax.adam(s.learning_rate).update(gradient, optimiser)
            return optax.apply_updates(theta, updates), optimiser

        theta, optimiser = lax.cond(taught, fit, lambda: (trained, self.optimiser))
        return P2NeurRank(s, eqx.combine(theta, fixed), self.theta_0, optimiser, self.lots, history)

    def _gradient(self, history: History, newest: Array, theta: scoring.Scorer, key: Key) -> Any:
        """Return the gradient of eq:obj, or an unbiased estimate of it within the budget."""
        s = self.settings
        lots, regulariser_lots = jax.random.split(key)
        if s.budget is None:
            targets = history.targets(s.noise_std, s.n_rankers, lots)
            gradient = fitting.full_gradient(history, theta, self._network_scores, targets, s.loss)
        else:
            gradient = fitting.sampled_gradient(
                history, newest, s.budget, theta, self._network_scores, s.noise_std, lots, s.loss
            )
        pull = fitting.pull_to_start(
            eqx.filter(theta, eqx.is_array),
            eqx.filter(self.theta_0, eqx.is_array),
            s.widths[-1] * s.l2,
            s.noise_std if s.perturb == "clicks+parameters" else 0.0,
            regulariser_lots if s.noise == "fresh" else jax.random.wrap_key_data(self.lots),
        )
        return jax.tree.map(jnp.add, gradient, pull)


PUBLISHED = [
    Published(
        "p2linrank",
        "P²LinRank: N linear rankers on perturbed clicks; explores where they disagree",
        P2LinSettings(),
        P2LinRank.start,
    ),
    Published(
        "p2neurrank",
        "P²NeurRank: N networks on perturbed clicks; explores where they disagree",
        P2NeurSettings(),
        P2NeurRank.start,
    ),
    Published(
        "p2linrank-paper",
        "P²LinRank with the paper's own settings",
        P2LinSettings(pairs="independent", inclusion="paper", l2=0.1),
        P2LinRank.start,
    ),
    Published(
        "p2neurrank-paper",
        "P²NeurRank with the paper's own settings",
        P2NeurSettings(pairs="independent", inclusion="paper", l2=0.1, start="centred", n_steps=5, budget=None),
        P2NeurRank.start,
    ),
]
