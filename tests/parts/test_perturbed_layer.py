"""The law of a perturbed layer's pulls and moves, on which P²LinRank and P²HeadRank rest."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from perturank.parts import perturbed_layer

N, D, STD = 8000, 6, 0.3
ERROR = 5 * np.sqrt(2 / N)  # five standard errors of a variance of so many draws
RNG = np.random.default_rng(3)
Z, WEIGHT, F = RNG.normal(size=(20, D)), RNG.uniform(0.2, 1.0, 20), RNG.normal(size=20)
P = 1 / (1 + np.exp(-F))
GRAM, BEND = (Z.T * WEIGHT) @ Z, (Z.T * (WEIGHT * P * (1 - P))) @ Z
PULLS = {"a number": 0.5, "per weight": np.array([0.5] * 2 + [20.0] * 4)}


def must_have_covariance(drawn: Any, expected: np.ndarray) -> None:
    """Check that the columns drawn, whitened, have mean 0 and covariance I."""
    white = np.linalg.solve(np.linalg.cholesky(expected), np.asarray(drawn, np.float64))
    np.testing.assert_allclose(white.mean(axis=1), 0, atol=5 / np.sqrt(N))
    np.testing.assert_allclose(np.cov(white), np.eye(D), atol=ERROR)


@pytest.mark.parametrize("l2", PULLS.values(), ids=PULLS)
def test_a_pull_sums_up_the_noise_of_all_pairs_and_of_the_regulariser(l2: Any) -> None:
    drawn = perturbed_layer.pull(jnp.asarray(GRAM), jnp.asarray(l2), STD, N, jax.random.key(0))
    must_have_covariance(drawn, STD**2 * (GRAM + l2 * np.eye(D)))


@pytest.mark.parametrize("l2", PULLS.values(), ids=PULLS)
def test_a_pull_is_distributed_as_noise_that_is_drawn_pair_by_pair(l2: Any) -> None:
    gamma, edge = STD * RNG.normal(size=(len(Z), N)), STD * RNG.normal(size=(D, N))
    one_by_one = (Z.T * np.sqrt(WEIGHT)) @ gamma + np.sqrt(l2 * np.ones(D))[:, None] * edge
    drawn = perturbed_layer.pull(jnp.asarray(GRAM), jnp.asarray(l2), STD, N, jax.random.key(1))
    for each in (one_by_one, drawn):
        must_have_covariance(each, STD**2 * (GRAM + l2 * np.eye(D)))


@pytest.mark.parametrize("l2", PULLS.values(), ids=PULLS)
def test_a_layer_moves_by_the_pull_in_the_norm_of_its_curvature(l2: Any) -> None:
    drawn = perturbed_layer.moves(jnp.asarray(GRAM), jnp.asarray(BEND), jnp.asarray(l2), STD, N, jax.random.key(0))
    a, h = GRAM + l2 * np.eye(D), BEND + l2 * np.eye(D)
    must_have_covariance(drawn, STD**2 * np.linalg.solve(h, a) @ np.linalg.inv(h))


def test_before_any_pair_a_layer_moves_by_the_noise_of_its_regulariser_alone() -> None:
    nothing, l2 = jnp.zeros((D, D)), jnp.asarray(PULLS["per weight"])
    drawn = perturbed_layer.moves(nothing, nothing, l2, STD, N, jax.random.key(0))
    must_have_covariance(drawn, STD**2 * np.diag(1 / np.asarray(l2)))


def test_early_noise_falls_from_its_multiple_to_one() -> None:
    weight = jnp.asarray([0.0, 50.0, np.inf])
    np.testing.assert_allclose(perturbed_layer.early(3.0, 50.0, weight), [3.0, (3.0 + 1.0) / 2, 1.0])
    np.testing.assert_array_equal(perturbed_layer.early(1.0, 50.0, weight), 1.0)
