"""The pull towards what a teacher taught, beside the minimum over s by SciPy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize_scalar

from perturank.parts.pull import Pull

D = 5
RNG = np.random.default_rng(4)
STRENGTH, TAUGHT, V = RNG.uniform(0.5, 3, D), RNG.normal(size=D), RNG.normal(size=D)
GRAM = np.cov(RNG.normal(size=(D, 20)))


def penalty(v: np.ndarray, l2_taught: float) -> float:
    """Return ½(v - s v₀)ᵀΛ(v - s v₀) + ½λ₀(s - 1)², with the s that makes it least."""

    def at(s: float) -> float:
        return float(0.5 * np.sum(STRENGTH * (v - s * TAUGHT) ** 2) + 0.5 * l2_taught * (s - 1) ** 2)

    return float(minimize_scalar(at, tol=1e-12).fun)


@pytest.mark.parametrize("l2_taught", [0.1, 10.0, 1e3])
def test_gradient_and_curvature_are_those_of_the_penalty_with_the_best_share(l2_taught: float) -> None:
    pull = Pull(jnp.asarray(STRENGTH), jnp.asarray(TAUGHT), l2_taught)
    expected = approx_fprime(V, lambda v: penalty(v, l2_taught), 1e-5)
    np.testing.assert_allclose(np.asarray(pull.gradient(jnp.asarray(V))), expected, atol=1e-3)

    curvature = np.asarray(pull.loosened(jnp.asarray(GRAM))) + np.diag(STRENGTH) - GRAM
    columns = [np.asarray(pull.gradient(jnp.asarray(V + e)) - pull.gradient(jnp.asarray(V))) for e in np.eye(D)]
    np.testing.assert_allclose(curvature, np.stack(columns, axis=1), atol=1e-4)
    assert np.linalg.eigvalsh(curvature).min() > 0


def test_what_was_taught_is_not_pulled_and_a_multiple_of_it_only_by_its_own_strength() -> None:
    pull = Pull(jnp.asarray(STRENGTH), jnp.asarray(TAUGHT), 1e-3)
    np.testing.assert_allclose(np.asarray(pull.gradient(jnp.asarray(TAUGHT))), 0, atol=1e-6)
    np.testing.assert_allclose(np.asarray(pull.gradient(jnp.asarray(-TAUGHT))), 0, atol=1e-2)


@pytest.mark.parametrize("taught", [None, np.zeros(D)])
def test_without_a_teacher_weights_are_pulled_towards_zero(taught: np.ndarray | None) -> None:
    pull = Pull(jnp.asarray(STRENGTH), None if taught is None else jnp.asarray(taught), 10.0)
    np.testing.assert_allclose(np.asarray(pull.gradient(jnp.asarray(V))), STRENGTH * V, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(pull.loosened(jnp.asarray(GRAM))), GRAM.astype(np.float32))
