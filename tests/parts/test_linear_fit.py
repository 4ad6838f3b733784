"""The linear fit on a history of several blocks, with and without a kept Hessian."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.pairs import N_PAIRS, PRIOR_IJ, WEIGHT, X_IJ, history
from oracles import objective as oracle
from scipy.optimize import minimize

from perturank.core import Array
from perturank.parts import linear_fit
from perturank.parts.history import History
from perturank.parts.linear_fit import AnyHessian, Hessian, LinearProblem, NoHessian

RNG = np.random.default_rng(9)
L2 = 2.0
GRAM = (X_IJ.T * WEIGHT) @ X_IJ
A = GRAM + L2 * np.eye(5)

# The first ranker is fitted to the plain clicks, the others to perturbed ones.
NOISE = RNG.normal(0, 0.3, (N_PAIRS, 3)) * [0, 1, 1]
PULL_NOISE = RNG.normal(0, 0.3, (5, 3)) * [0, 1, 1]
PULL = X_IJ.T @ (WEIGHT[:, None] * NOISE) + np.sqrt(L2) * PULL_NOISE
HESSIANS: dict[str, AnyHessian] = {"kept": Hessian(jnp.eye(5)), "none": NoHessian()}

newton = eqx.filter_jit(lambda problem, theta, hessian: linear_fit.newton(problem, theta, hessian)[0])
descended = eqx.filter_jit(linear_fit.descended)


def problem(kept: History, kind: str = "cross-entropy") -> LinearProblem:
    return LinearProblem(kept, jnp.asarray(L2), jnp.asarray(PULL, jnp.float32), kind)  # type: ignore[arg-type]


def must_agree(found: Array, expected: np.ndarray) -> None:
    """Compare in the norm in which the fit is said to have converged."""
    bound = 0.25 * GRAM + L2 * np.eye(5)
    thetas = np.asarray(found, np.float64) - expected, expected
    error, size = (np.sqrt(np.einsum("dn,de,en->n", theta, bound, theta)) for theta in thetas)
    assert (error <= 4e-3 * size).all()


@pytest.mark.parametrize("hessian", HESSIANS)
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_a_fit_is_the_minimiser_of_the_perturbed_objective_wherever_it_starts(scale: float, hessian: str) -> None:
    """The oracle perturbs every pair by itself: for linear scores one vector u says the same."""
    start = jnp.asarray(scale * np.random.default_rng(0).normal(size=(5, 3)), jnp.float32)
    expected = [oracle.linear_fit(X_IJ, 1.0, L2, NOISE[:, n], WEIGHT, PULL_NOISE[:, n]) for n in range(3)]
    must_agree(newton(problem(history()), start, HESSIANS[hessian]), np.stack(expected, 1))


def symmetric(theta: np.ndarray, n: int) -> float:
    pairs = oracle.bounded(X_IJ @ theta + PRIOR_IJ, 1.0, 0.0, WEIGHT)
    return pairs + oracle.linear_regulariser(theta, L2) - float(PULL[:, n] @ theta)


def test_a_prior_is_an_offset_of_the_scores() -> None:
    def loss(theta: np.ndarray, n: int) -> float:
        pairs = oracle.cross_entropies(X_IJ @ theta + PRIOR_IJ, 1.0, NOISE[:, n], WEIGHT)
        return pairs + oracle.linear_regulariser(theta, L2, PULL_NOISE[:, n])

    expected = [minimize(loss, np.zeros(5), n, tol=1e-9).x for n in range(3)]
    must_agree(newton(problem(history(True)), jnp.zeros((5, 3)), HESSIANS["kept"]), np.stack(expected, 1))


@pytest.mark.parametrize("gram", [jnp.asarray(GRAM, jnp.float32), None], ids=["kept", "none"])
def test_fits_of_the_symmetric_loss_descend_round_by_round_to_where_its_slope_is_zero(gram: Array | None) -> None:
    theta, losses = jnp.zeros((5, 3)), []
    for _ in range(60):
        losses.append([symmetric(np.asarray(theta, np.float64)[:, n], n) for n in range(3)])
        theta = descended(problem(history(True), "symmetric"), theta, gram)
    assert (np.diff(losses, axis=0) < 1e-2).all()
    for n in range(3):
        loss = partial(lambda t, n: symmetric(t, n), n=n)
        slope, first = (oracle.central_differences(loss, at) for at in (np.asarray(theta[:, n], float), np.zeros(5)))
        assert np.linalg.norm(slope) < 1e-2 * np.linalg.norm(first)


@pytest.mark.parametrize("gram", [jnp.asarray(GRAM, jnp.float32), None], ids=["kept", "none"])
def test_the_perturbation_has_the_law_of_noise_on_every_pair_and_on_the_regulariser(gram: Array | None) -> None:
    """U / ν has covariance A = λI + Σ w x xᵀ (eq:linloss); whitened by it, the covariance is I."""
    n, std = 20_000, 0.3
    draw = eqx.filter_jit(linear_fit.perturbation)
    u = np.asarray(draw(history(), gram, L2, std, n, jax.random.key(3)), np.float64) / std
    white = np.linalg.solve(np.linalg.cholesky(A), u)
    np.testing.assert_allclose(white.mean(1), 0, atol=5 / np.sqrt(n))
    np.testing.assert_allclose(np.cov(white), np.eye(5), atol=5 * np.sqrt(2 / n))


def test_when_the_noise_changes_a_little_the_minimisers_are_foretold_to_first_order() -> None:
    now = newton(problem(history()), jnp.zeros((5, 3)), HESSIANS["kept"])
    scores = jnp.asarray(np.asarray(history().documents) @ np.asarray(now))
    exact = eqx.filter_jit(Hessian.at)(problem(history()), scores)
    change = jnp.asarray(RNG.normal(0, 1, (5, 3)), jnp.float32)
    later = problem(history())._replace(pull=jnp.asarray(PULL, jnp.float32) + change)
    expected = np.asarray(newton(later, now, HESSIANS["kept"]))
    foretold = np.asarray(linear_fit.moved_with(now, exact, change))
    assert np.linalg.norm(foretold - expected) < 0.1 * np.linalg.norm(np.asarray(now) - expected)


def test_many_features_keep_no_square_matrix() -> None:
    gram, hessian = linear_fit.unknown(linear_fit.MOST_DENSE + 1)
    assert gram is None
    assert isinstance(hessian, NoHessian)
