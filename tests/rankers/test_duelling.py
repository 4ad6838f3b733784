from __future__ import annotations

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small
from oracles import updates

RATE = 0.1
QUERY = small.query(9, seed=6)
X = np.asarray(QUERY.features, np.float64)[:9]
KEY = jax.random.key(0)


def moved(ranker: Any, memo: Any, clicks: Any, order: Any = (0, 1, 2, 3)) -> np.ndarray:
    interaction = small.interaction(QUERY, order, np.flatnonzero(clicks).tolist(), memo)
    return np.asarray(ranker.learn(interaction, KEY).theta.weight, np.float64)


def directions(ranker: Any, memo: Any, n: int) -> np.ndarray:
    """Return the directions behind a list, each found by letting its candidate alone win."""
    lots, shares = memo
    alone = [jnp.zeros_like(shares).at[i + 1].set(1.0) for i in range(n)]
    return np.stack(
        [(moved(ranker, (lots, share), [1] * 4) - np.asarray(ranker.theta.weight)) / RATE for share in alone]
    )


@pytest.fixture(scope="module")
def trained() -> dict[int, Any]:
    start = jnp.asarray([0.5, -0.2, 0.1, 0.0, 0.3])
    rankers = {n: small.ranker("dbgd-linear", n_candidates=n, learning_rate=RATE, step=1.0) for n in (1, 3)}
    import equinox as eqx

    return {n: eqx.tree_at(lambda r: r.theta.weight, ranker, start) for n, ranker in rankers.items()}


@pytest.mark.parametrize("n", [1, 3])
def test_the_ranker_moves_towards_the_mean_of_the_winners(trained: dict[int, Any], n: int) -> None:
    ranker = trained[n]
    theta = np.asarray(ranker.theta.weight, np.float64)
    for seed in range(3):
        ranking = ranker.rank(QUERY, jax.random.key(seed), 4)
        teams = np.argmax(np.asarray(ranking.memo[1]), axis=0).tolist()
        u = directions(ranker, ranking.memo, n)
        np.testing.assert_allclose(np.linalg.norm(u, axis=1), 1, rtol=1e-4)
        for clicks in product((False, True), repeat=4):
            expected = updates.mgd(theta, u, clicks, teams, RATE)
            if n == 1:
                np.testing.assert_allclose(expected, updates.dbgd(theta, u[0], clicks, teams, RATE))
            found = moved(ranker, ranking.memo, clicks, ranking.order)
            np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("n", [1, 3])
def test_the_list_is_drafted_from_the_rankers_that_the_memo_names(trained: dict[int, Any], n: int) -> None:
    ranker = trained[n]
    theta = np.asarray(ranker.theta.weight, np.float64)
    for seed in range(5):
        ranking = ranker.rank(QUERY, jax.random.key(seed), 4)
        shares = np.asarray(ranking.memo[1])
        np.testing.assert_array_equal(shares.sum(0), 1)
        everyone = np.vstack([theta, theta + directions(ranker, ranking.memo, n)])
        placed: list[int] = []
        for document, team in zip(ranking.documents.tolist(), np.argmax(shares, 0), strict=True):
            left = [d for d in range(9) if d not in placed]
            assert document == max(left, key=lambda d: X[d] @ everyone[team])
            placed.append(document)


def test_directions_are_uniform_on_the_sphere(trained: dict[int, Any]) -> None:
    n_draws = 2000
    keys = jax.random.key_data(jax.random.split(jax.random.key(3), n_draws))
    won = jnp.asarray([[0.0] * 4, [1.0] * 4])
    interaction = small.interaction(QUERY, [0, 1, 2, 3], [0], (keys[0], won))

    def step(lots: Any) -> Any:
        given = type(interaction)(interaction.shown, interaction.clicks, (lots, won))
        return trained[1].learn(given, KEY).theta.weight

    u = (np.asarray(jax.jit(jax.vmap(step))(keys), np.float64) - np.asarray(trained[1].theta.weight)) / RATE
    np.testing.assert_allclose(u.mean(0), 0, atol=5 / np.sqrt(5 * n_draws))
    np.testing.assert_allclose(5 * u.T @ u / n_draws, np.eye(5), atol=0.2)


def test_shares_of_probabilistic_interleaving_are_credited_with_the_clicks() -> None:
    ranker = small.ranker("dbgd-linear", n_candidates=1, learning_rate=RATE, interleaving="probabilistic")
    ranking = ranker.rank(QUERY, KEY, 4)
    shares = np.asarray(ranking.memo[1])
    np.testing.assert_allclose(shares.sum(0), 1, rtol=1e-5)
    u = directions(ranker, ranking.memo, 1)[0]
    for clicks in product((False, True), repeat=4):
        current, candidate = shares @ clicks
        expected = RATE * u if candidate > current else 0 * u
        np.testing.assert_allclose(moved(ranker, ranking.memo, clicks, ranking.order), expected, atol=1e-6)
