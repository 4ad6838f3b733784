"""Gradients of networks on a history of several blocks."""

from __future__ import annotations

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small
from helpers.pairs import LOSERS, N_DOCUMENTS, N_PAIRS, PRIOR, PRIOR_IJ, WEIGHT, WINNERS, X_IJ, X, history
from oracles import network as network_oracle
from oracles import objective as oracle

from perturank.core import Array
from perturank.parts import fitting, scoring

RNG = np.random.default_rng(9)
NOISE = RNG.normal(0, 0.3, (N_PAIRS, 2)) * [0, 1]  # the first ranker is fitted to the plain clicks


def targets(noise: np.ndarray) -> Array:
    """Return Σ w (y + γ) of every pair; y is whether the lower slot won, and γ is turned with it."""
    kept = history()
    sign = np.where(WINNERS < LOSERS, 1, -1)[:, None]
    padded = np.zeros((kept.weight.shape[0], noise.shape[1]))
    padded[:N_PAIRS] = WEIGHT[:, None] * sign * noise
    return kept.preferred[:, None] + jnp.asarray(padded, jnp.float32)


@cache
def networks() -> Any:
    return jax.jit(lambda key: scoring.ensemble(lambda key: scoring.network(5, (8,), key, "centred"), 2, key))(
        jax.random.key(4)
    )


@cache
def full_gradient() -> Any:
    run = eqx.filter_jit(fitting.full_gradient)
    return run(history(True), networks(), None, targets(NOISE), "cross-entropy")


def test_the_gradient_of_a_network_is_that_of_back_propagation_by_hand() -> None:
    nets, found = networks(), full_gradient()
    for n in range(2):
        layers = [np.asarray(nets.hidden[0][n], np.float64).T, np.asarray(nets.output[n], np.float64)]
        scores = np.array([network_oracle.score(layers, x) for x in X]) + PRIOR
        slopes = WEIGHT * (oracle.sigmoid(scores[WINNERS] - scores[LOSERS]) - 1 - NOISE[:, n])
        passed = np.zeros(N_DOCUMENTS)
        np.add.at(passed, WINNERS, slopes)
        np.add.at(passed, LOSERS, -slopes)
        gradients = [network_oracle.gradient(layers, x) for x in X]
        hidden, output = (np.einsum("v,v...->...", passed, [g[layer] for g in gradients]) for layer in (0, 1))
        np.testing.assert_allclose(found.hidden[0][n], hidden.T, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(found.output[n], output, rtol=1e-3, atol=1e-3)


NONE = 10**6  # the slot of a pair that is none
NEWEST = np.array([3, 650, NONE, 3], np.int32)  # one of them twice
sampled = eqx.filter_jit(fitting.sampled_gradient)


def test_a_sampled_gradient_is_exact_while_all_pairs_fit_in_the_budget() -> None:
    nets = networks()
    plain = eqx.filter_jit(fitting.full_gradient)(
        history(True), nets, None, history().preferred[:, None] + jnp.zeros(2), "cross-entropy"
    )
    budget = N_PAIRS + len(NEWEST)
    newest = jnp.where(NEWEST == NONE, history().weight.shape[0], NEWEST)
    found = sampled(history(True), newest, budget, nets, None, 0.0, jax.random.key(0), "cross-entropy")
    for a, b in zip(small.arrays(found), small.arrays(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("noise_std", [0.0, 0.5])
def test_a_sampled_gradient_is_right_on_average_beyond_the_budget(noise_std: float) -> None:
    n_draws = 4000
    theta = scoring.Linear(jnp.asarray(RNG.normal(size=(2, 5)), jnp.float32))
    kept = history(True)  # made here: a value made inside a compiled function is none outside it
    newest = jnp.where(NEWEST == NONE, kept.weight.shape[0], NEWEST)

    @jax.jit
    def draws(keys: Array) -> Array:
        def one(key: Array) -> Array:
            weight: Array = fitting.sampled_gradient(
                kept, newest, 24, theta, None, noise_std, key, "cross-entropy"
            ).weight
            return weight

        return jax.vmap(one)(keys)

    found = np.asarray(draws(jax.random.split(jax.random.key(1), n_draws)), np.float64)
    f = X_IJ @ np.asarray(theta.weight, np.float64).T + PRIOR_IJ[:, None]
    expected = (WEIGHT[:, None] * (oracle.sigmoid(f) - 1)).T @ X_IJ
    error = found.std(0) / np.sqrt(n_draws)
    assert (np.abs(found.mean(0) - expected) < 5 * error).all()
    assert (error < 0.1 * np.abs(expected).max()).all()
    assert (found.std(0) > 0).all()


def test_the_newest_pairs_are_always_in_a_sampled_gradient() -> None:
    """Where all other pairs weigh nothing, every draw is the exact gradient of the newest."""
    kept, newest = history(), jnp.asarray([3, 650])
    alone = jnp.zeros_like(kept.weight).at[newest].set(1.0)
    bare = eqx.tree_at(lambda h: (h.weight, h.preferred), kept, (alone, alone))
    theta = scoring.Linear(jnp.zeros((1, 5)))
    for seed in range(3):
        found = sampled(bare, newest, 8, theta, None, 0.0, jax.random.key(seed), "cross-entropy").weight
        lower, higher = np.minimum(WINNERS, LOSERS), np.maximum(WINNERS, LOSERS)
        expected = -0.5 * sum(X[lower[slot]] - X[higher[slot]] for slot in (3, 650))
        np.testing.assert_allclose(found[0], expected, atol=1e-6)


def flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])


def test_the_pull_to_the_start_is_the_slope_of_the_regulariser() -> None:
    theta, theta_0 = (
        {"a": jnp.asarray(RNG.normal(size=(300, 5))), "b": jnp.asarray(RNG.normal(size=1500))} for _ in "ab"
    )
    m, lam, std = 4, 0.7, 0.3
    plain = fitting.pull_to_start(theta, theta_0, m * lam, 0.0, jax.random.key(0))
    some = slice(0, 20)
    numeric = oracle.central_differences(
        lambda t: oracle.network_regulariser(t, flat(theta_0)[some], lam, m), flat(theta)[some]
    )
    np.testing.assert_allclose(flat(plain)[some], numeric, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(flat(plain), m * lam * (flat(theta) - flat(theta_0)), rtol=1e-4, atol=1e-4)

    noisy = fitting.pull_to_start(theta, theta_0, m * lam, std, jax.random.key(0))
    gamma = (flat(noisy) - flat(plain)) / np.sqrt(m * lam)  # of mλ/2 ‖θ - θ₀ + γ/√(mλ)‖²
    assert abs(gamma.mean()) < 5 * std / np.sqrt(gamma.size)
    assert gamma.std() == pytest.approx(std, rel=5 / np.sqrt(2 * gamma.size))
    assert abs(np.corrcoef(gamma[:1500], gamma[1500:])[0, 1]) < 5 / np.sqrt(1500)
