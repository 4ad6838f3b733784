"""Fits on a history of several blocks: 300 documents with priors, 700 weighted pairs."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from oracles import network as network_oracle
from oracles import objective as oracle
from scipy.optimize import minimize

from perturank.core import Array, Query
from perturank.parts import fitting, scoring
from perturank.parts.history import History
from perturank.parts.objective import Loss
from perturank.parts.preferences import Pairs

RNG = np.random.default_rng(8)
N_DOCUMENTS, N_PAIRS, L2 = 300, 700, 2.0
X = small.rows(N_DOCUMENTS, seed=8)
PRIOR = RNG.normal(0, 0.5, N_DOCUMENTS).astype(np.float32)
ENDS = np.array(sorted({(i, (i + step) % N_DOCUMENTS) for i in range(N_DOCUMENTS) for step in (1, 7, 30)}))[:N_PAIRS]
UTILITY = X @ [1.0, -1.0, 0.5, 0.0, 2.0] + PRIOR
FLIPS = (UTILITY[ENDS[:, 0]] < UTILITY[ENDS[:, 1]]) ^ (RNG.random(N_PAIRS) < 0.2)
WINNERS, LOSERS = np.where(FLIPS[:, None], ENDS[:, ::-1], ENDS).T
WEIGHT = RNG.choice([0.25, 1.0, 2.0], N_PAIRS).astype(np.float32)
X_IJ = (X[WINNERS] - X[LOSERS]).astype(np.float64)
PRIOR_IJ = (PRIOR[WINNERS] - PRIOR[LOSERS]).astype(np.float64)
GRAM = (X_IJ.T * WEIGHT) @ X_IJ

# The first ranker is fitted to the plain clicks, the others to perturbed ones.
NOISE = RNG.normal(0, 0.3, (N_PAIRS, 3)) * [0, 1, 1]
PULL_NOISE = RNG.normal(0, 0.3, (5, 3)) * [0, 1, 1]


@cache
def history(has_prior: bool = False) -> History:
    prior = PRIOR if has_prior else np.zeros(N_DOCUMENTS, np.float32)
    ids = np.stack([np.arange(N_DOCUMENTS), np.zeros(N_DOCUMENTS)], 1).astype(np.uint32)
    shown = Query(jnp.asarray(X), jnp.ones(N_DOCUMENTS, bool), jnp.asarray(ids), jnp.asarray(prior))
    pairs = Pairs(*(jnp.asarray(a) for a in (WINNERS.astype(np.int32), LOSERS.astype(np.int32), WEIGHT)))
    found, slots = eqx.filter_jit(History.add)(
        History.empty(5).with_room(N_DOCUMENTS, N_PAIRS), shown, pairs, jax.random.key(0)
    )
    assert np.asarray(slots).tolist() == list(range(N_PAIRS))
    return found


def targets(noise: np.ndarray) -> Array:
    """Return Σ w (y + γ) of every pair; y is whether the lower slot won, and γ is turned with it."""
    kept = history()
    sign = np.where(WINNERS < LOSERS, 1, -1)[:, None]
    padded = np.zeros((kept.weight.shape[0], noise.shape[1]))
    padded[:N_PAIRS] = WEIGHT[:, None] * sign * noise
    return kept.preferred[:, None] + jnp.asarray(padded, jnp.float32)


linear_fit = eqx.filter_jit(fitting.linear_fit)


def fitted(kept: History, start: np.ndarray, kind: Loss = "cross-entropy") -> np.ndarray:
    pull = jnp.asarray(np.sqrt(L2) * PULL_NOISE, jnp.float32)
    gram = jnp.asarray(GRAM, jnp.float32)
    theta = linear_fit(kept, jnp.asarray(start, jnp.float32), targets(NOISE), jnp.asarray(L2), pull, gram, kind)
    return np.asarray(theta, np.float64)


def must_agree(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare in the norm in which the fit is said to have converged."""
    bound = 0.25 * GRAM + L2 * np.eye(5)
    error, size = (np.sqrt(np.einsum("dn,de,en->n", t, bound, t)) for t in (found - expected, expected))
    assert (error <= 4e-3 * size).all()


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_a_fit_is_the_minimiser_of_the_perturbed_objective_wherever_it_starts(scale: float) -> None:
    start = scale * np.random.default_rng(0).normal(size=(5, 3))
    expected = [oracle.linear_fit(X_IJ, 1.0, L2, NOISE[:, n], WEIGHT, PULL_NOISE[:, n]) for n in range(3)]
    must_agree(fitted(history(), start), np.stack(expected, 1))


def with_prior(kind: Loss, theta: np.ndarray, n: int) -> float:
    loss = {"cross-entropy": oracle.cross_entropies, "symmetric": oracle.bounded}[kind]
    pairs = loss(X_IJ @ theta + PRIOR_IJ, 1.0, NOISE[:, n], WEIGHT)
    return pairs + oracle.linear_regulariser(theta, L2, PULL_NOISE[:, n])


def test_a_prior_is_an_offset_of_the_scores() -> None:
    loss = lambda theta, n: with_prior("cross-entropy", theta, n)
    expected = [minimize(loss, np.zeros(5), n, tol=1e-9).x for n in range(3)]
    must_agree(fitted(history(True), np.zeros((5, 3))), np.stack(expected, 1))


def test_fits_of_the_symmetric_loss_descend_round_by_round_to_where_its_slope_is_zero() -> None:
    theta, losses = np.zeros((5, 3)), []
    for _ in range(14):
        losses.append([with_prior("symmetric", theta[:, n], n) for n in range(3)])
        theta = fitted(history(True), theta, "symmetric")
    assert (np.diff(losses, axis=0) < 1e-3).all()
    for n in range(3):
        loss = partial(lambda t, n: with_prior("symmetric", t, n), n=n)
        slope, first = (oracle.central_differences(loss, at) for at in (theta[:, n], np.zeros(5)))
        assert np.linalg.norm(slope) < 5e-3 * np.linalg.norm(first)


@cache
def networks() -> Any:
    return jax.jit(lambda key: scoring.ensemble(lambda key: scoring.network(5, (8,), key, "centred"), 2, key))(
        jax.random.key(4)
    )


@cache
def full_gradient() -> Any:
    run = eqx.filter_jit(fitting.full_gradient)
    return run(history(True), networks(), scoring.ensemble_scores, targets(NOISE[:, :2]), "cross-entropy")


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
        history(True), nets, scoring.ensemble_scores, history().preferred[:, None] + jnp.zeros(2), "cross-entropy"
    )
    budget = N_PAIRS + len(NEWEST)
    newest = jnp.where(NEWEST == NONE, history().weight.shape[0], NEWEST)
    found = sampled(
        history(True), newest, budget, nets, scoring.ensemble_scores, 0.0, jax.random.key(0), "cross-entropy"
    )
    for a, b in zip(small.arrays(found), small.arrays(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("noise_std", [0.0, 0.5])
def test_a_sampled_gradient_is_right_on_average_beyond_the_budget(noise_std: float) -> None:
    n_draws = 4000
    theta = scoring.Linear(jnp.asarray(RNG.normal(size=(2, 5)), jnp.float32))
    newest = jnp.where(NEWEST == NONE, history().weight.shape[0], NEWEST)

    @jax.jit
    def draws(keys: Array) -> Array:
        def one(key: Array) -> Array:
            weight: Array = fitting.sampled_gradient(
                history(True), newest, 24, theta, scoring.ensemble_scores, noise_std, key, "cross-entropy"
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
        found = sampled(
            bare, newest, 8, theta, scoring.ensemble_scores, 0.0, jax.random.key(seed), "cross-entropy"
        ).weight
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
