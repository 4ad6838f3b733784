"""Minimisers of the pairwise objective over the history; they know no clicks and no rankings.

Each distinct document is scored once; pairs gather differences of scores and scatter slopes back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import lax

from perturank.core import Array, Key
from perturank.parts.history import DOCUMENT_BLOCK, PAIR_BLOCK, History, over_blocks
from perturank.parts.objective import Loss, curvature, slope
from perturank.parts.scoring import Scorer

Score = Callable[[Scorer, Array], Array]  # (scorers, features [V, d]) -> [V, N]

# ‖error‖ / ‖θ‖ in the norm of the curvature bound at which a linear fit has converged.
TOLERANCE = 1e-3
MOST_NEWTON_STEPS = 20
MOST_CG_STEPS = 12
CG_ACCURACY = 0.1
MOST_STRIDES = 3  # a round: the start is warm, and more won nothing on MQ2008
STRIDE = 2.0


def _rows(array: Array, start: Array, size: int) -> Array:
    return lax.dynamic_slice_in_dim(array, start, size)


def history_scores(history: History, score: Callable[[Array], Array], n: int) -> Array:
    """Return `score` of every document of the history, block by block; [D, n]."""

    def block(start: Array, scores: Array) -> Array:
        return lax.dynamic_update_slice_in_dim(scores, score(_rows(history.documents, start, DOCUMENT_BLOCK)), start, 0)

    return over_blocks(history.n_documents, DOCUMENT_BLOCK, block, jnp.zeros((history.documents.shape[0], n)))


def over_pairs(history: History, scores: Array, per_pair: Callable[[Array, Array], Array]) -> Array:
    """Return what the pairs pass back to the documents: +r to the first, -r to the second; [D, N].

    `per_pair(start, f)` maps a block's score differences f [B, N] to r [B, N].
    """
    first, second = history.first, history.second

    def block(start: Array, passed: Array) -> Array:
        i, j = _rows(first, start, PAIR_BLOCK), _rows(second, start, PAIR_BLOCK)
        real = (start + jnp.arange(PAIR_BLOCK) < history.n_pairs)[:, None]
        r = jnp.where(real, per_pair(start, scores[i] - scores[j]), 0.0)
        return passed.at[i].add(r).at[j].add(-r)

    return over_blocks(history.n_pairs, PAIR_BLOCK, block, jnp.zeros_like(scores))


def _through_features(history: History, passed: Array) -> Array:
    """Return Xᵀ·passed, the gradient of linear scores; [D, N] -> [d, N]."""

    def block(start: Array, total: Array) -> Array:
        return total + _rows(passed, start, DOCUMENT_BLOCK).T @ _rows(history.documents, start, DOCUMENT_BLOCK)

    n = passed.shape[1], history.documents.shape[1]
    return over_blocks(history.n_documents, DOCUMENT_BLOCK, block, jnp.zeros(n)).T


def curvature_bound(gram: Array, l2: Array) -> Array:
    """Return λI + ¼ Σ w x xᵀ, which bounds the Hessian of cross-entropy from above; [d, d]."""
    return 0.25 * gram + l2 * jnp.eye(gram.shape[0])


class LinearProblem(NamedTuple):
    """Σ loss + λ/2 ‖θ‖² - pullᵀθ over the history, for N linear rankers with targets [P, N]; θ is [d, N]."""

    history: History
    targets: Array
    l2: Array
    pull: Array
    kind: Loss

    def _scores(self, weights: Array) -> Array:
        return history_scores(self.history, lambda rows: rows @ weights, weights.shape[1])

    def _pairs(self, start: Array) -> tuple[Array, Array]:
        weight = _rows(self.history.weight, start, PAIR_BLOCK)[:, None]
        return weight, _rows(self.targets, start, PAIR_BLOCK)

    def gradient(self, weights: Array) -> tuple[Array, Array]:
        """Return the documents' scores [D, N] and the gradient [d, N] (eqn:gradient)."""
        scores = self._scores(weights) + self.history.priors[:, None]
        passed = over_pairs(self.history, scores, lambda start, f: slope(f, *self._pairs(start), self.kind))
        return scores, _through_features(self.history, passed) + self.l2 * weights - self.pull

    def hessian_product(self, scores: Array, v: Array) -> Array:
        """Return H v at the point with these scores; [d, N]."""
        first, second = self.history.first, self.history.second

        def bent(start: Array, difference: Array) -> Array:
            i, j = _rows(first, start, PAIR_BLOCK), _rows(second, start, PAIR_BLOCK)
            return curvature(scores[i] - scores[j], *self._pairs(start), self.kind) * difference

        return _through_features(self.history, over_pairs(self.history, self._scores(v), bent)) + self.l2 * v


def linear_fit(
    history: History, theta: Array, targets: Array, l2: Array, pull: Array, gram: Array, kind: Loss
) -> Array:
    """Return the minimiser of the linear problem from a warm start; gram is Σ w x xᵀ; [d, N].

    Cross-entropy is strictly convex and fitted to convergence; the symmetric loss is not convex and
    descends for a bounded number of steps.
    """
    problem = LinearProblem(history, targets, l2, pull, kind)
    bound = curvature_bound(gram, l2)
    return newton(problem, theta, bound) if kind == "cross-entropy" else descended(problem, theta, bound)


def newton(problem: LinearProblem, theta: Array, bound: Array) -> Array:
    """Return the minimiser by Newton's method; [d, N].

    Each step is solved by conjugate gradients, preconditioned by the curvature bound, with products
    of the Hessian that pass over the documents. A column whose gradient does not shrink goes
    back and takes a quarter of its step: a short enough one shrinks it.
    """
    factor = jsl.cho_factor(bound, lower=True)

    def lighter(g: Array) -> Array:
        return jsl.cho_solve(factor, g)

    def step(state: _Newton) -> _Newton:
        # One evaluation of the gradient a pass keeps the program small, and so its compilation short.
        scores, g = problem.gradient(state.weights)
        error = jnp.sum(g * lighter(g), 0)
        converged = _is_small(error, state.weights, bound)
        worse = error > state.error

        def direction(g: Array) -> Array:
            return conjugate_gradients(lambda v: problem.hessian_product(scores, v), g, lighter)

        tried = state.weights - lax.cond(converged, jnp.zeros_like, direction, g)
        return _Newton(
            jnp.where(worse, state.before + 0.25 * (state.weights - state.before), tried),
            jnp.where(worse, state.before, state.weights),
            jnp.where(worse, state.error, error),
            state.n + 1,
            converged,
        )

    unknown = jnp.full(theta.shape[1], jnp.inf)
    start = _Newton(theta, theta, unknown, jnp.zeros((), jnp.int32), jnp.asarray(False))
    return lax.while_loop(lambda state: ~state.converged & (state.n < MOST_NEWTON_STEPS), step, start).weights


def _is_small(error: Array, weights: Array, bound: Array) -> Array:
    """Return whether every column's gradient is small against its weights, in the norm of the bound."""
    return jnp.all(error <= TOLERANCE**2 * jnp.sum(weights * (bound @ weights), 0) + 1e-12)


class _Newton(NamedTuple):
    """A fit under way: where it is, where it was, and the size of the gradient there."""

    weights: Array
    before: Array
    error: Array
    n: Array
    converged: Array


def descended(problem: LinearProblem, theta: Array, bound: Array) -> Array:
    """Return the weights after a few steps of gradient descent in the norm of the curvature bound; [d, N].

    Without noise the curvature of the symmetric loss stays below 0.77 of the bound, so a step of 2
    still descends, and is quicker where the loss is flat.
    """
    factor = jsl.cho_factor(bound, lower=True)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        weights, n, _ = state
        _, g = problem.gradient(weights)
        move = jsl.cho_solve(factor, g)
        return weights - STRIDE * move, n + 1, _is_small(jnp.sum(g * move, 0), weights, bound)

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        return ~state[2] & (state[1] < MOST_STRIDES)

    return lax.while_loop(unfinished, step, (theta, jnp.zeros((), jnp.int32), jnp.asarray(False)))[0]


def conjugate_gradients(product: Callable[[Array], Array], b: Array, lighter: Callable[[Array], Array]) -> Array:
    """Return x with H x ≈ b, column by column, to CG_ACCURACY in the preconditioned residual; [d, N]."""
    z = lighter(b)
    size = jnp.sum(b * z, 0)

    def step(state: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        x, r, p, rz, n = state
        hp = product(p)
        bend = jnp.sum(p * hp, 0)
        a = jnp.where(bend > 0, rz / jnp.where(bend > 0, bend, 1.0), 0.0)
        x, r = x + a * p, r - a * hp
        z = lighter(r)
        rz_new = jnp.sum(r * z, 0)
        p = z + jnp.where(rz > 0, rz_new / jnp.where(rz > 0, rz, 1.0), 0.0) * p
        return x, r, p, rz_new, n + 1

    def unfinished(state: tuple[Array, Array, Array, Array, Array]) -> Array:
        return jnp.any(state[3] > CG_ACCURACY**2 * size) & (state[4] < MOST_CG_STEPS)

    return lax.while_loop(unfinished, step, (jnp.zeros_like(b), b, z, size, jnp.zeros((), jnp.int32)))[0]


def full_gradient(history: History, scorers: Scorer, score: Score, targets: Array, kind: Loss) -> Scorer:
    """Return the gradient of the whole history's loss in every scorer's parameters (eq:obj without its regulariser)."""
    n = targets.shape[1]
    s = history_scores(history, lambda rows: score(scorers, rows), n) + history.priors[:, None]

    def at(start: Array, f: Array) -> Array:
        return slope(f, _rows(history.weight, start, PAIR_BLOCK)[:, None], _rows(targets, start, PAIR_BLOCK), kind)

    passed = over_pairs(history, s, at)
    trained, fixed = eqx.partition(scorers, eqx.is_array)

    def block(start: Array, total: Scorer) -> Scorer:
        rows = _rows(history.documents, start, DOCUMENT_BLOCK)
        _, back = jax.vjp(lambda p: score(eqx.combine(p, fixed), rows), trained)
        return jax.tree.map(jnp.add, total, back(_rows(passed, start, DOCUMENT_BLOCK))[0])

    n_blocks = (history.n_documents + DOCUMENT_BLOCK - 1) // DOCUMENT_BLOCK
    zero = jax.tree.map(jnp.zeros_like, trained)
    return lax.fori_loop(0, n_blocks, lambda i, total: block(i * DOCUMENT_BLOCK, total), zero)


def sampled_gradient(
    history: History, newest: Array, budget: int, scorers: Scorer, score: Score, noise_std: float, key: Key, kind: Loss
) -> Scorer:
    """Return an unbiased estimate of `full_gradient` from at most `budget` pairs.

    The newest pairs (slots [q]) are always among them; the rest are drawn uniformly, with
    replacement, from all pairs and weighted up. While all pairs fit, all are taken, and it is exact.
    """
    q = newest.shape[0]
    room = max(budget - q, 1)
    keys = jax.random.split(key)
    fits = history.n_pairs <= room
    drawn = jax.random.randint(keys[0], (room,), 0, jnp.maximum(history.n_pairs, 1))
    rest = jnp.where(fits, jnp.arange(room), drawn)
    scale = jnp.where(fits, 1.0, history.n_pairs / room) * (rest < history.n_pairs)
    scale = jnp.where(jnp.any(rest[:, None] == newest[None, :], axis=1), 0.0, scale)
    repeated = jnp.any(jnp.tril(newest[:, None] == newest[None, :], -1), axis=1)
    slots = jnp.concatenate([newest, rest])
    scale = jnp.concatenate([jnp.where(repeated | (newest >= history.weight.shape[0]), 0.0, 1.0), scale])

    weight = history.weight[slots][:, None]
    if history.frozen is not None:
        noise = history.frozen[slots]
    else:
        n = jax.eval_shape(score, scorers, history.documents[:1]).shape[1]
        noise = noise_std * jnp.sqrt(weight) * jax.random.normal(keys[1], (slots.shape[0], n))
    target = history.preferred[slots][:, None] + noise
    ends = jnp.concatenate([history.first[slots], history.second[slots]])
    rows, priors = history.documents[ends], history.priors[ends][:, None]
    trained, fixed = eqx.partition(scorers, eqx.is_array)
    s, back = jax.vjp(lambda p: score(eqx.combine(p, fixed), rows) + priors, trained)
    r = scale[:, None] * slope(s[: slots.shape[0]] - s[slots.shape[0] :], weight, target, kind)
    return back(jnp.concatenate([r, -r]))[0]


def pull_to_start(theta: Scorer, theta_0: Scorer, strength: float, noise_std: float, key: Key) -> Scorer:
    """Return the gradient of strength/2 ‖θ - θ₀ + γ/√strength‖², with noise γ for the appendix's variant."""
    leaves, shape = jax.tree.flatten(theta)
    pulls = []
    for leaf, start, k in zip(leaves, jax.tree.leaves(theta_0), jax.random.split(key, len(leaves)), strict=True):
        noise = math.sqrt(strength) * noise_std * jax.random.normal(k, leaf.shape) if noise_std > 0 else 0.0
        pulls.append(strength * (leaf - start) + noise)
    return jax.tree.unflatten(shape, pulls)
