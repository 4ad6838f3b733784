"""The fit of N linear rankers to the whole history, perturbed (eq:linloss).

All noise on the clicks is one vector (see `perturbed_layer`), so the N perturbed objectives are the
plain one less u^(n)ᵀθ: a vector of d numbers is drawn instead of a number for every pair, at a cost
that does not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import lax

from perturank.core import Array, Key
from perturank.parts import draws, perturbed_layer
from perturank.parts.history import PAIR_BLOCK, History, over_blocks
from perturank.parts.objective import Loss, curvature, slope
from perturank.parts.passes import history_scores, over_pairs, rows, through_features

# Up to so many features A and a Hessian are kept and factored; beyond, all is done by passes over the documents.
MOST_DENSE = 512
# ‖error‖ / ‖θ‖ in the norm of the Hessian at which the next step, which leaves less than a third, is the last.
TOLERANCE = 3e-3
MOST_NEWTON_STEPS = 30
STALE = 0.3  # a step that leaves more than this share of the error was taken with an old Hessian
MOST_CG_STEPS = 12
CG_ACCURACY = 0.1
MOST_STRIDES = 2  # a round: the start is warm, and more won nothing on MQ2008
STRIDE = 2.0
FEW = 3  # a product with up to so many columns is slower than so many products with one


class LinearProblem(NamedTuple):
    """Σ loss + λ/2 ‖θ‖² - uᵀθ over the history, for N linear rankers; θ and u (`pull`) are [d, N]."""

    history: History
    l2: Array
    pull: Array
    kind: Loss

    def _pairs(self, start: Array) -> tuple[Array, Array]:
        weight, target = (rows(a, start, PAIR_BLOCK)[:, None] for a in (self.history.weight, self.history.preferred))
        return weight, target

    def _scores(self, weights: Array) -> Array:
        def score(documents: Array) -> Array:
            if weights.shape[1] > FEW:
                return documents @ weights
            return jnp.stack([documents @ column for column in weights.T], axis=1)

        return history_scores(self.history, score, weights.shape[1])

    def gradient(self, weights: Array) -> tuple[Array, Array]:
        """Return the documents' scores [D, N] and the gradient [d, N] (eqn:gradient)."""
        scores = self._scores(weights) + self.history.priors[:, None]
        passed = over_pairs(self.history, scores, lambda start, f: slope(f, *self._pairs(start), self.kind))
        return scores, through_features(self.history, passed) + self.l2 * weights - self.pull

    def hessian_product(self, scores: Array, v: Array) -> Array:
        """Return H v at the point with these scores; [d, N]."""
        first, second = self.history.first, self.history.second

        def bent(start: Array, difference: Array) -> Array:
            i, j = rows(first, start, PAIR_BLOCK), rows(second, start, PAIR_BLOCK)
            return curvature(scores[i] - scores[j], self._pairs(start)[0], self.kind) * difference

        return through_features(self.history, over_pairs(self.history, self._scores(v), bent)) + self.l2 * v

    def curvatures(self, scores: Array) -> Array:
        """Return Σ w σ' x xᵀ at the points with these scores [D, N], σ' being the largest of the N; [d, d]."""
        history = self.history

        def block(start: Array, total: Array) -> Array:
            i, j = rows(history.first, start, PAIR_BLOCK), rows(history.second, start, PAIR_BLOCK)
            bend = jnp.max(curvature(scores[i] - scores[j], self._pairs(start)[0], self.kind), axis=1)
            bend = jnp.where(start + jnp.arange(PAIR_BLOCK) < history.n_pairs, bend, 0.0)
            x = history.documents[i] - history.documents[j]
            return total + (x * bend[:, None]).T @ x

        d = history.documents.shape[1]
        return over_blocks(history.n_pairs, PAIR_BLOCK, block, jnp.zeros((d, d)))


def gram(history: History) -> Array:
    """Return Σ w x xᵀ over all pairs; [d, d]."""

    def block(start: Array, total: Array) -> Array:
        i, j, weight = (rows(a, start, PAIR_BLOCK) for a in (history.first, history.second, history.weight))
        x = history.documents[i] - history.documents[j]  # beyond the last pair the weight is 0
        return total + (x * weight[:, None]).T @ x

    d = history.documents.shape[1]
    return over_blocks(history.n_pairs, PAIR_BLOCK, block, jnp.zeros((d, d)))


def perturbation(
    history: History, gram: Array | None, l2: Array | float, noise_std: Array | float, n: int, key: Key
) -> Array:
    """Return u ~ N(0, ν²A) for n rankers; [d, n]. gram is Σ w x xᵀ, None beyond MOST_DENSE features.

    The regulariser counts as d pairs √λ e_l (eq:linloss) and is perturbed like them.
    """
    d = history.documents.shape[1]
    if gram is not None:
        return perturbed_layer.pull(gram, l2, noise_std, n, key)
    keys = jax.random.split(key)

    def drawn(start: Array, _: Array) -> Array:
        lots = draws.normal(jax.random.fold_in(keys[1], start), (PAIR_BLOCK, n))
        return jnp.sqrt(rows(history.weight, start, PAIR_BLOCK))[:, None] * lots

    of_pairs = through_features(history, over_pairs(history, jnp.zeros((history.documents.shape[0], n)), drawn))
    return noise_std * (l2**0.5 * jax.random.normal(keys[0], (d, n)) + of_pairs)


class Hessian(NamedTuple):
    """The Cholesky factor of the Hessian at some earlier point, [d, d]."""

    factor: Array

    @classmethod
    def at(cls, problem: LinearProblem, scores: Array) -> Hessian:
        """Return one Hessian for all rankers at the points with these scores [D, N]."""
        curvatures = problem.curvatures(scores)
        return cls(perturbed_layer.factor(curvatures, problem.l2))

    def solved(self, problem: LinearProblem, scores: Array, g: Array) -> Array:
        """Return H⁻¹ g."""
        return jsl.cho_solve((self.factor, True), g)

    def square(self, problem: LinearProblem, scores: Array, weights: Array) -> Array:
        """Return θᵀHθ; [N]."""
        return jnp.sum((self.factor.T @ weights) ** 2, axis=0)


class NoHessian(NamedTuple):
    """Where d × d is too much: the Hessian of the present point, by passes over the documents."""

    factor: None = None

    @classmethod
    def at(cls, problem: LinearProblem, scores: Array) -> NoHessian:
        """Return it: it is never out of date."""
        return cls()

    def solved(self, problem: LinearProblem, scores: Array, g: Array) -> Array:
        """Return H⁻¹ g to CG_ACCURACY."""
        return conjugate_gradients(lambda v: problem.hessian_product(scores, v), g)

    def square(self, problem: LinearProblem, scores: Array, weights: Array) -> Array:
        """Return θᵀHθ; [N]."""
        return jnp.sum(weights * problem.hessian_product(scores, weights), axis=0)


AnyHessian = Hessian | NoHessian


def unknown(n_features: int) -> tuple[Array | None, AnyHessian]:
    """Return Σ w x xᵀ of no pairs and a Hessian that the first fit will renew; without either beyond MOST_DENSE."""
    if n_features > MOST_DENSE:
        return None, NoHessian()
    return jnp.zeros((n_features, n_features)), Hessian(jnp.eye(n_features))


class _Fit(NamedTuple):
    """A fit under way: where it is, where it was, the size of the gradient there, whether the Hessian is of there."""

    weights: Array
    before: Array
    error: Array
    hessian: AnyHessian
    is_fresh: Array
    must_renew: Array
    n: Array
    converged: Array


def moved_with(theta: Array, hessian: AnyHessian, change: Array) -> Array:
    """Return about where the minimisers go when u changes by this much: to first order, and without a pass; [d, N]."""
    if isinstance(hessian, NoHessian):
        return theta
    return theta + jsl.cho_solve((hessian.factor, True), change)


def newton(problem: LinearProblem, theta: Array, hessian: AnyHessian) -> tuple[Array, AnyHessian]:
    """Return the minimiser of a convex problem from a warm start, [d, N], and the Hessian used last.

    The Hessian is kept from step to step and from round to round, and computed anew when a step
    leaves too much of the error. A step after which the gradient has grown is taken back, and taken
    again with the Hessian of the place it started from; if that was used already, a quarter of it:
    a short enough one shrinks the gradient.
    """

    def step(state: _Fit) -> _Fit:
        scores, g = problem.gradient(state.weights)
        move = state.hessian.solved(problem, scores, g)
        error = jnp.sum(g * move, 0)
        converged = jnp.all(error <= TOLERANCE**2 * state.hessian.square(problem, scores, state.weights) + 1e-12)
        worse = (error > state.error) & ~state.must_renew
        slow = jnp.any(error > STALE**2 * state.error) & ~jnp.any(worse) & ~converged
        renews = state.must_renew | slow
        goes_back = jnp.any(worse) & ~state.is_fresh

        def renewed() -> tuple[AnyHessian, Array]:
            hessian = type(state.hessian).at(problem, scores)
            return hessian, hessian.solved(problem, scores, g)

        hessian, move = lax.cond(renews, renewed, lambda: (state.hessian, move))
        shorter = jnp.where(goes_back, 0.0, 0.25)
        again = worse | goes_back
        return _Fit(
            jnp.where(again, state.before + shorter * (state.weights - state.before), state.weights - move),
            jnp.where(again, state.before, state.weights),
            jnp.where(again, state.error, jnp.sum(g * move, 0)),
            hessian,
            renews | (state.is_fresh & jnp.any(worse)),
            goes_back,
            state.n + 1,
            converged & ~renews,
        )

    unknown, no = jnp.full(theta.shape[1], jnp.inf), jnp.asarray(False)
    start = _Fit(theta, theta, unknown, hessian, no, no, jnp.zeros((), jnp.int32), no)
    end = lax.while_loop(lambda state: ~state.converged & (state.n < MOST_NEWTON_STEPS), step, start)
    return end.weights, end.hessian


def descended(problem: LinearProblem, theta: Array, gram: Array | None) -> Array:
    """Return the weights after a few steps of gradient descent in the norm of the curvature bound; [d, N].

    The bound is λI + ¼ Σ w x xᵀ, that of cross-entropy: the symmetric loss is not convex. Its
    curvature stays below 0.77 of the bound, so a step of 2 still descends, and is quicker where the
    loss is flat.
    """
    bound: AnyHessian = NoHessian()
    if gram is not None:
        bound = Hessian(perturbed_layer.factor(0.25 * gram, problem.l2))

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        weights, n, _ = state
        scores, g = problem.gradient(weights)
        move = bound.solved(problem, scores, g)
        small = jnp.sum(g * move, 0) <= TOLERANCE**2 * bound.square(problem, scores, weights) + 1e-12
        return weights - STRIDE * move, n + 1, jnp.all(small)

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        return ~state[2] & (state[1] < MOST_STRIDES)

    return lax.while_loop(unfinished, step, (theta, jnp.zeros((), jnp.int32), jnp.asarray(False)))[0]


def conjugate_gradients(product: Callable[[Array], Array], b: Array) -> Array:
    """Return x with H x ≈ b, column by column, to CG_ACCURACY of the residual; [d, N]."""
    size = jnp.sum(b**2, 0)

    def step(state: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        x, r, p, rr, n = state
        hp = product(p)
        bend = jnp.sum(p * hp, 0)
        a = jnp.where(bend > 0, rr / jnp.where(bend > 0, bend, 1.0), 0.0)
        x, r = x + a * p, r - a * hp
        rr_new = jnp.sum(r**2, 0)
        p = r + jnp.where(rr > 0, rr_new / jnp.where(rr > 0, rr, 1.0), 0.0) * p
        return x, r, p, rr_new, n + 1

    def unfinished(state: tuple[Array, Array, Array, Array, Array]) -> Array:
        return jnp.any(state[3] > CG_ACCURACY**2 * size) & (state[4] < MOST_CG_STEPS)

    return lax.while_loop(unfinished, step, (jnp.zeros_like(b), b, b, size, jnp.zeros((), jnp.int32)))[0]
