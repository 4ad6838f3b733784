"""P²HeadRank: one network learns from the clicks as they are, N heads on its last layer carry the noise.

P²NeurRank trains N networks, whose disagreement is mostly that of their random hidden layers. Here
there is one network, and its last layer, linear in z(x) = [φ(x), x], is perturbed as the noise of
alg:model would perturb it (`parts.perturbed_layer`): the spread shrinks as clicks come in, and ν scales it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import optax
from jax import lax

from perturank.core import Array, Interaction, Key, Query
from perturank.errors import BadInput
from perturank.hyperparameters import AT_LEAST_ONE, EVEN, NOT_NEGATIVE, POSITIVE, WIDTHS, hyper
from perturank.layers import Layers, of_columns
from perturank.parts import perturbed_layer, scoring
from perturank.parts.ensemble import LOSS, P2Rank, P2Settings, omega
from perturank.parts.fitting import Sample, differences
from perturank.parts.history import History
from perturank.parts.network_fit import over_rounds
from perturank.parts.objective import Loss, slope
from perturank.parts.preferences import Pairs
from perturank.parts.pull import Pull
from perturank.parts.table import home_cells
from perturank.publishing import Published

# Where not all pairs fit a step's sample, every fourth step renews an eighth of the means over pairs, and the heads:
# products of z take longer than all the rest.
RENEWAL = 1 / 8
RENEWED_EVERY = 4
L2_TAUGHT = 10.0  # where a ranker is taught whose settings say nothing
N_RESIDUALS = 2**14  # documents are hashed to as many numbers; two that share one disturb each other little


@dataclass(frozen=True)
class P2HeadSettings(P2Settings):
    """Hyper-parameters of P²HeadRank."""

    n_rankers: int = hyper(2, "number of heads, in pairs: f(x) ± z(x)·Δ", "N", EVEN)
    noise_std: float = hyper(0.4, "standard deviation of the noise added to every click preference", "ν", NOT_NEGATIVE)
    early_noise: float = hyper(3.0, "how many times larger ν is before the first click", "", AT_LEAST_ONE)
    early_weight: float = hyper(300.0, "weight of pairs at which half of that has gone", "W₀", POSITIVE)
    loss: Loss = hyper("mixed", LOSS)
    l2: float = hyper(30.0, "strength of the pull towards 0 on the weights of the features", "λ", POSITIVE)
    l2_output: float = hyper(100.0, "the same on the weights of the last hidden layer", "", POSITIVE)
    l2_hidden: float = hyper(5.0, "strength of the pull towards the start on the hidden layers", "", POSITIVE)
    l2_document: float | None = hyper(
        None, "the same on what is known of one document beyond its features (none: nothing is)", "", POSITIVE
    )
    l2_taught: float | None = hyper(
        None,
        "strength of the pull towards the whole of what a teacher taught (none: it has no teacher)",
        "",
        AT_LEAST_ONE,
    )
    new_weight: float = hyper(
        0.25, "mean weight of a pair beyond which every λ grows in proportion to it", "", POSITIVE
    )
    widths: tuple[int, ...] = hyper((100,), "widths of the hidden layers", "m, L", WIDTHS)
    shortcut: bool = hyper(True, "let the last layer see the features too, beside the last hidden layer")
    bias: bool = hyper(False, "let hidden units have thresholds: the network sees a constant 1 before the features")
    learning_rate: float = hyper(1e-3, "step size of Adam on the hidden layers", "η", POSITIVE)
    n_steps: int = hyper(1, "steps a round", "J", AT_LEAST_ONE)
    budget: int = hyper(256, "pairs a step: the newest and a sample of the rest", "", AT_LEAST_ONE)


class Fit(eqx.Module):
    """What a step changes."""

    theta: scoring.Network
    optimiser: Any
    gram: Array  # the mean of z zᵀ over all pairs, [D, D]
    bend: Array  # the mean of σ'(f) z zᵀ
    bound: Array  # the Cholesky factor of ¼ Σ w z zᵀ + Λ, which bounds the curvature of both losses
    n_steps: Array
    residual: Array | None = None  # r, what is known of documents beyond their features, by a hash of their ids; [R]


class P2HeadRank(P2Rank):
    """One network with N heads f ± z·Δ, drawn anew whenever a click has taught something."""

    settings: P2HeadSettings
    fit: Fit
    hidden_0: tuple[Array, ...]  # the hidden layers at the start
    delta: Array  # the moves of the last layer, [D, N / 2]
    last_0: Array | None = None  # the last layer that a teacher left, or 0; [D]

    @classmethod
    def start(cls, settings: P2HeadSettings, n_features: int, key: Key) -> P2HeadRank:
        """Return a network whose scores are all 0, without noise: a prior alone decides the first lists."""
        n_inputs = n_features + settings.bias
        theta = scoring.network(n_inputs, settings.widths, key, shortcut=settings.shortcut)
        n = settings.widths[-1] + (n_inputs if settings.shortcut else 0)
        zeros, adam = jnp.zeros((n, n)), _adam(settings).init(theta.hidden)
        residual = None if settings.l2_document is None else jnp.zeros(N_RESIDUALS)
        fit = Fit(theta, adam, zeros, zeros + 0, jnp.eye(n), jnp.zeros((), jnp.int32), residual)
        history = History.empty(n_features, memory=settings.memory)
        hidden_0, delta = jax.tree.map(jnp.copy, theta.hidden), jnp.zeros((n, settings.n_rankers // 2))
        return cls(settings, history, fit, hidden_0, delta, None if settings.l2_taught is None else jnp.zeros(n))

    def pupil(self) -> P2HeadRank:
        """Return the same without what it knows of single documents: a teacher shall teach what holds for all."""
        if bool(self.has_learned):
            raise BadInput("the ranker has learned already", "teach one that has not")
        settings = replace(self.settings, l2_document=None, l2_taught=None, memory=None)
        return self._begun(settings, self.fit.theta)

    def taught(self, pupil: P2HeadRank, trust: float | None) -> P2HeadRank:
        """Return this ranker with what its pupil has learned as its start, without the lessons."""
        l2 = self.settings.l2_taught if trust is None else trust
        taught = self._begun(replace(self.settings, l2_taught=L2_TAUGHT if l2 is None else l2), pupil.fit.theta)
        return eqx.tree_at(lambda each: each.last_0, taught, _last_layer(pupil.fit.theta))

    def _begun(self, settings: P2HeadSettings, theta: scoring.Network) -> P2HeadRank:
        """Return a ranker without clicks that begins with this network."""
        new = P2HeadRank.start(settings, self.n_features, jax.random.key(0))
        hidden = jax.tree.map(jnp.copy, theta.hidden)
        return eqx.tree_at(lambda each: (each.fit.theta, each.hidden_0), new, (theta, hidden))

    @property
    def has_learned(self) -> Array:
        """Whether a click has taught something."""
        return self.fit.n_steps > 0

    def scores(self, query: Query) -> Array:
        """Return every head's scores; [V, N]."""

        def score(rows: Array) -> Array:
            x = _inputs(self.settings, rows)
            f, kept = self.fit.theta.forward(x)
            spread = _last_inputs(self.fit.theta, kept, x) @ self.delta
            return jnp.concatenate([f[:, None] + spread, f[:, None] - spread], axis=1)

        beside = query.prior + _residuals(self.fit, query.ids)
        return scoring.by_blocks(score, query.features, query.n_rows) + beside[:, None]

    @eqx.filter_jit
    def score(self, query: Query) -> Array:
        """Return the mean score of the N heads: f(x), the prior, and what is known of the document beyond; [V]."""

        def score(rows: Array) -> Array:
            return self.fit.theta(_inputs(self.settings, rows))[:, None]

        f = scoring.by_blocks(score, query.features, query.n_rows)[:, 0]
        return f + query.prior + _residuals(self.fit, query.ids)

    def layers(self) -> Layers:
        """Return f(x) as layers; what is known of single documents beyond their features cannot be written so."""
        layers = self.fit.theta.layers()
        if not self.settings.bias:
            return layers
        d = self.n_features
        return of_columns(layers, np.eye(d + 1, d, -1), np.eye(d + 1)[0])  # 1 before the features

    @eqx.filter_jit
    def learn_batch(self, seen: Interaction, keys: Key, n: Array) -> P2HeadRank:
        """Return the network after one fit to all clicks, the first n of these interactions [B, …] among them."""
        s = self.settings

        def pairs(each: Interaction, lots: Key) -> Pairs:
            return omega(s, each, lots)

        history, newest = self.history.add_batch(seen, pairs, keys, n)
        of_samples, of_heads = jax.random.split(jax.random.split(keys[jnp.maximum(n - 1, 0)], 3)[2])
        total = history.total_weight
        is_new = jnp.any(newest < history.weight.shape[0], axis=1)
        weights = None if self.fit.residual is None else _residual_weights(history)

        def step(i: Array, newest: Array, fit: Fit) -> Fit:
            sample = Sample.drawn(history, newest, s.budget, jax.random.fold_in(of_samples, i))
            return self._stepped(fit, history, sample, total, weights)

        fit = over_rounds(step, s.n_steps, newest, is_new, self.fit)
        noise_std = s.noise_std * perturbed_layer.early(s.early_noise, s.early_weight, total)

        def drawn() -> Array:
            pull = self._pull(history, total)
            gram, bend = pull.loosened(total * fit.gram), pull.loosened(total * fit.bend)
            return perturbed_layer.moves(gram, bend, pull.strength, noise_std, s.n_rankers // 2, of_heads)

        renewed = _n_renewals(fit) > _n_renewals(self.fit)
        renewed |= jnp.any(is_new) & Sample.is_all(history, newest[0], s.budget)
        delta = lax.cond(renewed, drawn, lambda: self.delta)
        return P2HeadRank(s, history, fit, self.hidden_0, delta, self.last_0)

    def faded(self, share: float) -> P2HeadRank:
        """Return the same network whose history weighs this share of what it did."""
        return super().faded(share).recomputed()

    def recomputed(self) -> P2HeadRank:
        """Return the same with the bound of its curvature computed again, which holds for all features."""
        total = self.history.total_weight
        bound = _bound(self.fit.gram, total, self._pull(self.history, total))
        return eqx.tree_at(lambda each: each.fit.bound, self, bound)

    def _pull(self, history: History, total: Array) -> Pull:
        """Return the pull on the last layer."""
        s = self.settings
        strength = _repeated(s, history, total) * _pulls(s, self.n_features)
        return Pull(strength) if s.l2_taught is None else Pull(strength, self.last_0, s.l2_taught)

    def _stepped(self, fit: Fit, history: History, sample: Sample, total: Array, weights: Array | None) -> Fit:
        """Return the fit after a step: Adam's on the hidden layers, Newton steps in the last one and the residuals."""
        s, ends = self.settings, sample.ends(history)
        x, weight = _inputs(s, history.documents[ends]), history.weight[sample.slots]
        scores, kept = fit.theta.forward(x)
        ids = history.document_table.keys[ends]
        f = differences(scores + history.priors[ends] + _residuals(fit, ids))
        r = sample.scale * slope(f, weight, history.preferred[sample.slots], s.loss)
        gradient = fit.theta.backward(x, kept, jnp.concatenate([r, -r]))

        repeated = _repeated(s, history, total)
        pull, v = self._pull(history, total), _last_layer(fit.theta)

        def renewed() -> tuple[Array, Array, Array]:
            z, shares = differences(_last_inputs(fit.theta, kept, x)), sample.scale * weight / jnp.maximum(total, 1e-9)
            p, renewal = jax.nn.sigmoid(f), jnp.where(sample.is_whole, 1.0, RENEWAL)
            gram = fit.gram + renewal * (_mean_product(z, shares) - fit.gram)
            bend = fit.bend + renewal * (_mean_product(z, shares * p * (1 - p)) - fit.bend)
            return gram, bend, _bound(gram, total, pull)

        renews = sample.is_whole | (fit.n_steps % RENEWED_EVERY == 0)
        gram, bend, bound = lax.cond(renews, renewed, lambda: (fit.gram, fit.bend, fit.bound))

        hidden, hidden_0 = fit.theta.hidden, self.hidden_0
        l2_hidden = repeated * s.l2_hidden
        pulled = jax.tree.map(lambda g, w, w_0: g + l2_hidden * (w - w_0), gradient.hidden, hidden, hidden_0)
        updates, optimiser = _adam(s).update(pulled, fit.optimiser)
        hidden = optax.apply_updates(hidden, updates)

        # A Newton step in the norm of the bound, as far as the sample can be trusted.
        trust = jnp.where(sample.is_whole, 1.0, jnp.minimum(s.budget / jnp.maximum(history.n_pairs, 1), 1.0))
        v = v - trust * jsl.cho_solve((bound, True), _last_layer(gradient) + pull.gradient(v))
        theta, residual = _with_last_layer(fit.theta, hidden, v), fit.residual
        if residual is not None and s.l2_document is not None and weights is not None:
            l2 = repeated * s.l2_document
            pulled = (l2 * residual).at[home_cells(ids, N_RESIDUALS)].add(jnp.concatenate([r, -r]))
            # Twice the bound of its own curvature, w/2: the last layer takes its step at the same time.
            residual = residual - trust * pulled / (weights + l2)
        return Fit(theta, optimiser, gram, bend, bound, fit.n_steps + 1, residual)


def _residuals(fit: Fit, ids: Array) -> Array:
    """Return r of each document; [V, 2] -> [V]."""
    return jnp.zeros(ids.shape[0]) if fit.residual is None else fit.residual[home_cells(ids, N_RESIDUALS)]


def _residual_weights(history: History) -> Array:
    """Return the weight of all pairs in which each residual occurs; [R]."""
    cells = home_cells(history.document_table.keys, N_RESIDUALS)
    ends = jnp.concatenate([history.first, history.second])
    return jnp.zeros(N_RESIDUALS).at[cells[ends]].add(jnp.tile(history.weight, 2))


def _n_renewals(fit: Fit) -> Array:
    """Return how many of the steps so far were due to renew the means."""
    return -(-fit.n_steps // RENEWED_EVERY)


def _inputs(s: P2HeadSettings, features: Array) -> Array:
    """Return what the first layer sees: with a bias, 1 before the features; features that are added later come last."""
    return jnp.pad(features, ((0, 0), (1, 0)), constant_values=1.0) if s.bias else features


def _last_inputs(theta: scoring.Network, kept: tuple[Array, ...], inputs: Array) -> Array:
    """Return z(x), what the last layer sees: the last hidden layer and, by the shortcut, the inputs; [V, D]."""
    return kept[-1] if theta.shortcut is None else jnp.concatenate([kept[-1], inputs], axis=1)


def _last_layer(theta: scoring.Network) -> Array:
    """Return v of f(x) = z(x)·v; [D]."""
    return theta.output if theta.shortcut is None else jnp.concatenate([theta.output, theta.shortcut])


def _with_last_layer(theta: scoring.Network, hidden: tuple[Array, ...], v: Array) -> scoring.Network:
    m = theta.output.shape[0]
    return scoring.Network(hidden, v[:m], None if theta.shortcut is None else v[m:], theta.scale)


def _pulls(s: P2HeadSettings, n_features: int) -> Array:
    """Return Λ, the strength of the pull on each weight of the last layer; [D]."""
    of_network = jnp.full(s.widths[-1], s.l2_output)
    return jnp.concatenate([of_network, jnp.full(n_features + s.bias, s.l2)]) if s.shortcut else of_network


def _repeated(s: P2HeadSettings, history: History, total: Array) -> Array:
    """Return the factor on every λ: at least 1, and in proportion to the mean weight of a distinct pair.

    Clicks on the same few lists tell less than clicks on new ones. Where the pull stays the same while they come again
    and again, the network learns these lists by heart.
    """
    return jnp.maximum(total / jnp.maximum(history.n_pairs, 1) / s.new_weight, 1.0)


def _bound(gram: Array, total: Array, pull: Pull) -> Array:
    return perturbed_layer.factor(pull.loosened(0.25 * total * gram), pull.strength)


def _mean_product(z: Array, shares: Array) -> Array:
    """Return Σ share z zᵀ; [q, D], [q] -> [D, D]."""
    return (z * shares[:, None]).T @ z


def _adam(s: P2HeadSettings) -> optax.GradientTransformation:
    return optax.adam(s.learning_rate)


PUBLISHED = [
    Published(
        "p2headrank",
        "P²HeadRank: one network whose last layer carries the noise; explores where N heads disagree",
        P2HeadSettings(floor=0.02),
        P2HeadRank,
    ),
]
