from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from helpers import small
from oracles import network as oracle
from oracles import objective

from perturank.core import Array
from perturank.parts import scoring
from perturank.parts.history import History
from perturank.parts.network_fit import NetworkFit
from perturank.parts.preferences import Pairs

KEY, KEPT = jax.random.key(0), jax.random.key(1)
QUERY = small.query(4, seed=9)
X = np.asarray(QUERY.features, np.float64)[:4]
FIT = NetworkFit(learning_rate=0.01, n_steps=3, budget=None, strength=0.5, centred=True)
NONE = 10**6


@cache
def history(n_frozen: int | None = None) -> History:
    """Return a history in which document 0 beat 1, and 3 beat 2 with weight 1/2."""
    pairs = Pairs(jnp.asarray([0, 3]), jnp.asarray([1, 2]), jnp.asarray([1.0, 0.5]))
    found, _ = eqx.filter_jit(History.add)(History.empty(5, n_frozen), QUERY.take(jnp.arange(4)), pairs, KEY, 0.3)
    return found


@cache
def networks() -> tuple[Any, Any]:
    """Return two networks, and where they started."""

    def two(key: Array) -> Any:
        return scoring.ensemble(lambda key: scoring.network(5, (8,), key, "centred"), 2, key)

    theta_0 = eqx.filter_jit(two)(KEY)
    return jax.tree.map(lambda leaf: 1.1 * leaf + 0.01, theta_0), theta_0


gradient = eqx.filter_jit(NetworkFit.gradient)
fitted = eqx.filter_jit(NetworkFit.fitted)


def test_the_gradient_is_that_of_the_objective_with_its_regulariser() -> None:
    theta, theta_0 = networks()
    for budget in (None, 16):
        found = gradient(replace(FIT, budget=budget), theta, theta_0, history(), jnp.asarray([NONE]), KEY, KEPT)
        for n in range(2):
            now, start = (
                [np.asarray(net.hidden[0][n], np.float64).T, np.asarray(net.output[n], np.float64)]
                for net in (theta, theta_0)
            )

            def loss(flat: np.ndarray, now: Any = now, start: Any = start) -> float:
                f = np.array([oracle.score(oracle.unflat(flat, now), x) - oracle.score(start, x) for x in X])
                pairs = objective.cross_entropies([f[0] - f[1], f[3] - f[2]], 1.0, weight=[1.0, 0.5])
                return pairs + objective.network_regulariser(flat, oracle.flat(start), 0.5 / 8, 8)

            expected = objective.central_differences(loss, oracle.flat(now))
            mine = [np.asarray(found.hidden[0][n]).T, np.asarray(found.output[n])]
            np.testing.assert_allclose(oracle.flat(mine), expected, rtol=1e-3, atol=1e-4)


def test_a_round_without_a_pair_moves_nothing_and_one_with_a_pair_does() -> None:
    theta, theta_0 = networks()
    fit = replace(FIT, budget=16)
    start = FIT.optimiser(theta)
    still, state = fitted(fit, theta, theta_0, start, history(), jnp.asarray([[NONE]]), KEY, KEPT)
    assert small.same_bits((still, state), (theta, start))
    moved, state = fitted(fit, theta, theta_0, start, history(), jnp.asarray([[0]]), KEY, KEPT)
    assert not small.same_bits(moved, theta)
    assert int(state[0].count) == FIT.n_steps


def test_noise_on_the_regulariser_is_kept_where_noise_on_clicks_is_frozen() -> None:
    theta, theta_0 = networks()
    noisy = replace(FIT, parameter_noise_std=0.3, budget=16)
    for n_frozen in (None, 2):
        one, other = (
            gradient(noisy, theta, theta_0, history(n_frozen), jnp.asarray([0]), jax.random.key(seed), KEPT)
            for seed in (4, 5)
        )
        assert small.same_bits(one, other) == (n_frozen is not None)
