"""P²LinRank and P²NeurRank: N rankers, each fitted to clicks perturbed for it alone (alg:model)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from perturank import layers
from perturank.core import Array, Interaction, Key, Query
from perturank.hyperparameters import AT_LEAST_ONE, POSITIVE, WIDTHS, hyper
from perturank.layers import Layers
from perturank.parts import batches, linear_fit, scoring
from perturank.parts.ensemble import P2Rank, P2Settings, omega
from perturank.parts.history import History
from perturank.parts.network_fit import NetworkFit
from perturank.parts.preferences import Pairs
from perturank.publishing import Published

Noise = Literal["fresh", "frozen"]
NOISE = "redrawn for the whole history each round, or once per pair and kept"


@dataclass(frozen=True)
class P2LinSettings(P2Settings):
    """Hyper-parameters of P²LinRank."""

    noise: Noise = hyper("fresh", NOISE)


@dataclass(frozen=True)
class P2NeurSettings(P2Settings):
    """Hyper-parameters of P²NeurRank."""

    noise: Noise = hyper("fresh", NOISE)
    l2: float = hyper(0.5, "strength of the pull towards the start, times the width m", "λ", POSITIVE)
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
    scorer: str = hyper(scoring.NETWORK, scoring.SCORER)


Remembered = tuple[History, Array | None, Array, Array]  # with gram, pull, and whether there is a new pair


class P2LinRank(P2Rank):
    """P² with N linear rankers, each fitted to the whole history every round."""

    settings: P2LinSettings
    theta: Array  # [d, N]
    pull: Array  # u, the noise on all pairs and on the regulariser, [d, N]
    gram: Array | None  # Σ w x xᵀ over all pairs, [d, d]; None for many features
    hessian: linear_fit.AnyHessian  # of an earlier fit

    @classmethod
    def start(cls, settings: P2LinSettings, n_features: int, key: Key) -> P2LinRank:
        """Return N rankers at 0: nothing is certain before the first click."""
        shape = n_features, settings.n_rankers
        pull = settings.l2**0.5 * settings.noise_std * jax.random.normal(key, shape)
        gram, hessian = linear_fit.unknown(n_features)
        return cls(settings, History.empty(n_features, memory=settings.memory), jnp.zeros(shape), pull, gram, hessian)

    @property
    def feature_covariance(self) -> Array | None:
        """A of lemma:cb, [d, d]; None where there are too many features to keep it."""
        return None if self.gram is None else self.gram + self.settings.l2 * jnp.eye(self.n_features)

    @property
    def has_learned(self) -> Array:
        """Whether a click has taught something."""
        return jnp.any(self.theta != 0)

    def scores(self, query: Query) -> Array:
        """Return every ranker's scores; [V, N]."""
        return query.features @ self.theta + query.prior[:, None]

    def layers(self) -> Layers:
        """Return the mean of the N rankers as one layer."""
        return layers.linear(np.mean(np.asarray(self.theta, np.float64), axis=1))

    @eqx.filter_jit
    def learn_batch(self, seen: Interaction, keys: Key, n: Array) -> P2LinRank:
        """Return the ensemble refitted once to all clicks, the first n of these interactions [B, …] among them."""
        s = self.settings

        def add(i: Array, state: Remembered) -> Remembered:
            history, gram, pull, taught = state
            each, lots = batches.at(seen, i), jax.random.split(keys[i], 3)
            pairs = omega(s, each, lots[0])
            history, slots = history.add(each.shown, pairs, lots[1])
            news = jnp.where(slots < history.weight.shape[0], pairs.weight, 0.0)
            features = each.shown.features
            x = jnp.sqrt(news)[:, None] * (features[pairs.winner] - features[pairs.loser])
            gram = None if gram is None else gram + x.T @ x
            if s.noise == "frozen":
                pull = pull + s.noise_std * x.T @ jax.random.normal(lots[2], (x.shape[0], s.n_rankers))
            return history, gram, pull, taught | jnp.any(news > 0)

        start = *self.memory, jnp.asarray(False)
        history, gram, frozen, taught = batches.folded(add, batches.size(seen), n, start)

        def fit() -> tuple[Array, Array, linear_fit.AnyHessian]:
            pull = frozen
            if s.noise == "fresh":
                last = jax.random.split(keys[jnp.maximum(n - 1, 0)], 3)[2]
                pull = linear_fit.perturbation(history, gram, s.l2, s.noise_std, s.n_rankers, last)
            problem = linear_fit.LinearProblem(history, jnp.asarray(s.l2), pull, s.loss)
            if s.loss != "cross-entropy":
                return linear_fit.descended(problem, self.theta, gram), pull, self.hessian
            start = linear_fit.moved_with(self.theta, self.hessian, pull - self.pull)
            theta, hessian = linear_fit.newton(problem, start, self.hessian)
            return theta, pull, hessian

        theta, pull, hessian = lax.cond(taught, fit, lambda: (self.theta, self.pull, self.hessian))
        return P2LinRank(s, history, theta, pull, gram, hessian)

    @property
    def memory(self) -> tuple[History, Array | None, Array]:
        """The history, Σ w x xᵀ and u."""
        return self.history, self.gram, self.pull

    def faded(self, share: float) -> P2LinRank:
        """Return the same ensemble whose history, and the noise on it, weighs this share of what it did."""
        faded = super().faded(share)
        gram = None if self.gram is None else self.gram * share
        return eqx.tree_at(
            lambda ranker: (ranker.gram, ranker.pull),
            faded,
            (gram, self.pull * share**0.5),
            is_leaf=lambda leaf: leaf is None,
        )

    def newer_half(self, key: Key) -> tuple[History, Array | None, Array]:
        """Return these without what is forgotten; the noise of what stays is drawn anew."""
        s, history = self.settings, self.history.newer_half()
        gram = None if self.gram is None else linear_fit.gram(history)
        lots = jax.random.fold_in(key, 3)  # the first three are those of the round
        return history, gram, linear_fit.perturbation(history, gram, s.l2, s.noise_std, s.n_rankers, lots)


class P2NeurRank(P2Rank):
    """P² with N networks, each taking a few Adam steps a round from where it was."""

    settings: P2NeurSettings
    theta: scoring.Scorer
    theta_0: scoring.Scorer
    optimiser: Any
    lots: Array  # data of the key of all noise that is drawn once and kept

    @classmethod
    def start(cls, settings: P2NeurSettings, n_features: int, key: Key) -> P2NeurRank:
        """Return N networks, or N scorers of your own, at their θ₀; all scores are 0, less those of θ₀ if need be."""

        def network(k: Key) -> scoring.Network:
            return scoring.network(n_features, settings.widths, k, settings.start, settings.shortcut)

        def one(k: Key) -> scoring.Scorer:
            return scoring.row_scorer(settings.scorer, n_features, k, network)

        theta = scoring.ensemble(one, settings.n_rankers, key)
        n_frozen = settings.n_rankers if settings.noise == "frozen" else None
        history = History.empty(n_features, n_frozen, settings.memory)
        theta_0 = scoring.map_arrays(jnp.copy, theta)
        return cls(settings, history, theta, theta_0, network_fit(settings).optimiser(theta), jax.random.key_data(key))

    @property
    def has_learned(self) -> Array:
        """Whether a click has taught something: Adam has taken a step."""
        return self.optimiser[0].count > 0

    def scores(self, query: Query) -> Array:
        """Return every ranker's scores; [V, N]."""
        fit = network_fit(self.settings)
        scores = scoring.by_blocks(
            lambda rows: fit.scores(self.theta, self.theta_0, rows), query.features, query.n_rows
        )
        return scores + query.prior[:, None]

    def layers(self) -> Layers:
        """Return the mean of the N networks as one network, N times as wide."""
        return network_fit(self.settings).layers(self.theta, self.theta_0)

    @eqx.filter_jit
    def learn_batch(self, seen: Interaction, keys: Key, n: Array) -> P2NeurRank:
        """Return the ensemble after one fit to all clicks, the first n of these interactions [B, …] among them."""
        s = self.settings

        def pairs(each: Interaction, lots: Key) -> Pairs:
            return omega(s, each, lots)

        history, newest = self.history.add_batch(seen, pairs, keys, n, s.noise_std)
        last = jax.random.split(keys[jnp.maximum(n - 1, 0)], 3)[2]
        kept = jax.random.wrap_key_data(self.lots)
        theta, optimiser = network_fit(s).fitted(self.theta, self.theta_0, self.optimiser, history, newest, last, kept)
        return P2NeurRank(s, history, theta, self.theta_0, optimiser, self.lots)


def network_fit(s: P2NeurSettings) -> NetworkFit:
    """Return how the networks of these settings are fitted (alg:model, lines 18-21)."""
    return NetworkFit(
        learning_rate=s.learning_rate,
        n_steps=s.n_steps,
        budget=s.budget,
        strength=s.widths[-1] * s.l2,
        centred=s.start == "centred" or s.scorer != scoring.NETWORK,
        loss=s.loss,
        noise_std=s.noise_std,
        parameter_noise_std=s.noise_std if s.perturb == "clicks+parameters" else 0.0,
    )


PUBLISHED = [
    Published(
        "p2linrank",
        "P²LinRank: N linear rankers on perturbed clicks; explores where they disagree",
        P2LinSettings(noise_std=0.5, floor=0.02),
        P2LinRank,
    ),
    Published(
        "p2neurrank",
        "P²NeurRank: N networks on perturbed clicks; explores where they disagree",
        P2NeurSettings(floor=0.02),
        P2NeurRank,
    ),
    Published(
        "p2linrank-paper",
        "P²LinRank with the paper's own settings",
        P2LinSettings(pairs="independent", inclusion="paper", loss="cross-entropy", beyond_weight=1.0, l2=0.1),
        P2LinRank,
    ),
    Published(
        "p2neurrank-paper",
        "P²NeurRank with the paper's own settings",
        P2NeurSettings(
            pairs="independent",
            inclusion="paper",
            loss="cross-entropy",
            beyond_weight=1.0,
            l2=0.1,
            start="centred",
            n_steps=5,
            budget=None,
        ),
        P2NeurRank,
    ),
]
