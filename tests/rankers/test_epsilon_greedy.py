from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from helpers import small
from oracles import network, preferences, updates

PRIOR = np.linspace(0, 1, 9).astype(np.float32)
QUERY = small.query(9, seed=6, prior=PRIOR)
X = np.asarray(QUERY.features, np.float64)[:9]
ORDER, CLICKED = [4, 0, 7, 2], [0, 2]
PAIRS = [(ORDER[i], ORDER[j]) for i, j in preferences.all_pairs([p in CLICKED for p in range(4)], 1)]


def step(ranker: Any) -> Any:
    later = ranker.learn(small.interaction(QUERY, ORDER, CLICKED), jax.random.key(0))
    return jax.tree.map(
        lambda new, old: np.asarray(new - old), *(eqx.filter(r.theta, eqx.is_array) for r in (later, ranker))
    )


def test_a_linear_step_is_that_of_pairwise_gradient_descent() -> None:
    theta = jnp.asarray([0.5, -0.2, 0.1, 0.0, 0.3])
    ranker = small.ranker("epsilon-greedy-linear", learning_rate=0.2, examined_beyond=1)
    ranker = eqx.tree_at(lambda r: r.theta.weight, ranker, theta)
    expected = updates.pairwise_step(X @ np.asarray(theta, np.float64) + PRIOR, X, PAIRS, 0.2)
    np.testing.assert_allclose(step(ranker).weight, expected, rtol=1e-4, atol=1e-6)


def test_a_step_of_a_network_is_that_of_pairwise_gradient_descent_through_it() -> None:
    ranker = small.ranker("epsilon-greedy-neural", learning_rate=0.2, examined_beyond=1)
    output = jnp.linspace(-1, 1, 8)
    ranker = eqx.tree_at(lambda r: r.theta.output, ranker, output)
    layers = [np.asarray(ranker.theta.hidden[0], np.float64).T, np.asarray(output, np.float64) / np.sqrt(8)]
    scores = np.array([network.score(layers, x) for x in X]) + PRIOR
    np.testing.assert_allclose(np.asarray(ranker.score(QUERY))[:9], scores, rtol=1e-4, atol=1e-5)
    jacobian = np.stack(
        [np.concatenate([h.T.ravel(), o / np.sqrt(8)]) for h, o in (network.gradient(layers, x) for x in X)]
    )
    found = step(ranker)
    expected = updates.pairwise_step(scores, jacobian, PAIRS, 0.2)
    np.testing.assert_allclose(np.concatenate([found.hidden[0].ravel(), found.output]), expected, rtol=1e-3, atol=1e-5)
