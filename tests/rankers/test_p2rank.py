"""The perturbed ensembles: their fits, the law of their spread, and what they show before any click."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations
from math import factorial, log
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from helpers import small
from oracles import network, objective, preferences

from perturank.parts import linear_fit

QUERY = small.query(9, seed=2)
X = np.asarray(QUERY.features, np.float64)[:9]
LISTS = [([0, 1, 2, 3], [0]), ([4, 2, 8, 0], [1, 2]), ([3, 1, 2, 0], [3]), ([5, 6, 7, 8], []), ([0, 1, 2, 3], [0])]
PAPER: dict[str, Any] = {
    "pairs": "all",
    "inclusion": "paper",
    "examined_beyond": 1,
    "beyond_weight": 1.0,
    "loss": "cross-entropy",
}


def pairs(lists: list[tuple[list[int], list[int]]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the documents (winner, loser) and weights of all pairs of these lists."""
    found, weights = [], []
    for order, clicked in lists:
        clicks = [place in clicked for place in range(4)]
        for i, j in preferences.all_pairs(clicks, 1):
            found.append((order[i], order[j]))
            weights.append(preferences.balanced_weight(clicks, 1))
    return np.array(found), np.array(weights)


@cache
def perturbed(noise: str) -> Any:
    return trained("p2linrank", LISTS, n_rankers=N_RANKERS, noise_std=STD, l2=L2, noise=noise)


def trained(name: str, lists: list[tuple[list[int], list[int]]], **changes: Any) -> Any:
    return taught(small.ranker(name, **PAPER | changes), lists)


def taught(ranker: Any, lists: list[tuple[list[int], list[int]]]) -> Any:
    for t, (order, clicked) in enumerate(lists):
        ranker = ranker.learn(small.interaction(QUERY, order, clicked), jax.random.key(t))
    return ranker


# The law that the paper's proof rests on

N_RANKERS, STD, L2 = 4000, 0.05, 0.5
SPREAD_ERROR = 5 * np.sqrt(2 / N_RANKERS)  # five standard errors of a variance of so many rankers


@pytest.mark.parametrize("noise", ["fresh", "frozen"])
def test_rankers_spread_around_the_plain_fit_by_the_noise_in_the_norm_of_the_linearised_problem(noise: str) -> None:
    """Var xᵀθ^(n) = ν² xᵀ H⁻¹ A H⁻¹ x: A sums up the noise of all pairs and of the regulariser, H undoes it."""
    theta = np.asarray(perturbed(noise).theta, np.float64)
    (winners, losers), weight = (documents := pairs(LISTS)[0]).T, pairs(LISTS)[1]
    x_ij = X[winners] - X[losers]
    plain = objective.linear_fit(x_ij, 1.0, L2, weight=weight)
    h = objective.linear_hessian(plain, x_ij, L2, weight)
    a = (x_ij.T * weight) @ x_ij + L2 * np.eye(5)
    expected = STD**2 * np.linalg.solve(h, a) @ np.linalg.inv(h)
    assert len(documents) > len(np.unique(documents, axis=0))  # some pairs were seen twice
    off = X @ (theta - plain[:, None])
    variance = np.einsum("vd,de,ve->v", X, expected, X)
    np.testing.assert_allclose(
        off.mean(1), 0, atol=5 * np.sqrt(variance.max() / N_RANKERS) + 5e-3 * np.abs(X @ plain).max()
    )
    np.testing.assert_allclose(off.var(1), variance, rtol=SPREAD_ERROR + 0.02)
    # and in every direction: whitened, the rankers have the covariance I
    root = np.linalg.cholesky(np.linalg.inv(expected))
    white = np.cov(root.T @ theta)
    np.testing.assert_allclose(white, np.eye(5), atol=SPREAD_ERROR + 0.03)


def test_where_clicks_contradict_each_other_the_spread_is_that_of_the_linear_problem_at_zero() -> None:
    """The plain fit is 0, every slope of σ is 1/4, and H = λI + ¼ Σ w x xᵀ exactly."""
    lists = [([0, 1, 5, 6], [0]), ([1, 0, 5, 6], [0]), ([2, 3, 5, 6], [0]), ([3, 2, 5, 6], [0])]  # either way round
    theta = np.asarray(trained("p2linrank", lists, n_rankers=N_RANKERS, noise_std=STD, l2=L2, noise="fresh").theta)
    (winners, losers), weight = pairs(lists)[0].T, pairs(lists)[1]
    gram = ((X[winners] - X[losers]).T * weight) @ (X[winners] - X[losers])
    h = 0.25 * gram + L2 * np.eye(5)
    variance = STD**2 * np.einsum("vd,de,ve->v", X, np.linalg.solve(h, gram + L2 * np.eye(5)) @ np.linalg.inv(h), X)
    np.testing.assert_allclose((X @ theta).var(1), variance, rtol=SPREAD_ERROR)
    np.testing.assert_allclose((X @ theta).mean(1), 0, atol=5 * np.sqrt(variance.max() / N_RANKERS))


def test_frozen_noise_keeps_its_rankers_where_they_are_until_something_new_is_clicked() -> None:
    nothing, hardly = small.interaction(QUERY, [5, 6, 7, 8], []), small.interaction(QUERY, [5, 6, 7, 8], [0])
    moves = {}
    for noise in ("fresh", "frozen"):
        ranker = perturbed(noise)
        assert small.same_bits(ranker.learn(nothing, jax.random.key(8)).theta, ranker.theta)
        later = ranker.learn(hardly, jax.random.key(8))
        moves[noise] = np.corrcoef((X[:5] @ np.asarray(later.theta))[0], (X[:5] @ np.asarray(ranker.theta))[0])[0, 1]
    assert abs(moves["fresh"]) < 0.1
    assert moves["frozen"] > 0.8


# Fits

PLAIN: dict[str, Any] = {"noise_std": 0.0, "l2": 0.5}


def test_without_noise_all_rankers_are_the_plain_fit_and_all_orders_are_certain() -> None:
    ranker = trained("p2linrank", LISTS, **PLAIN)
    (winners, losers), weight = pairs(LISTS)[0].T, pairs(LISTS)[1]
    expected = objective.linear_fit(X[winners] - X[losers], 1.0, 0.5, weight=weight)
    for n in range(2):
        np.testing.assert_allclose(np.asarray(ranker.theta)[:, n], expected, atol=5e-3 * np.abs(expected).max())
    assert float(ranker.uncertain(QUERY)) == 0
    ranking = ranker.rank(QUERY, jax.random.key(0), 4)
    assert ranking.documents.tolist() == np.argsort(-np.asarray(ranker.score(QUERY))[:9])[:4].tolist()
    assert float(ranking.log_propensity) == 0
    np.testing.assert_allclose(ranker.score(QUERY)[:9], X @ expected, atol=1e-2 * np.abs(X @ expected).max())


def test_with_many_features_the_same_fit_is_reached_without_a_square_matrix() -> None:
    def wide(**changes: Any) -> Any:
        start = small.ranker("p2linrank", **PAPER | changes)
        return taught(replace(start, gram=None, hessian=linear_fit.NoHessian()), LISTS)

    dense, found = trained("p2linrank", LISTS, **PLAIN), wide(**PLAIN)
    assert found.gram is None
    np.testing.assert_allclose(found.theta, dense.theta, atol=1e-2 * np.abs(np.asarray(dense.theta)).max())
    assert small.is_finite(wide(loss="symmetric", noise_std=0.3, l2=0.5))


def test_a_network_goes_down_to_a_minimum_of_the_objective() -> None:
    l2, widths = 0.02, 8
    ranker = trained(
        "p2neurrank", LISTS[:2], noise_std=0.0, l2=l2, budget=32, start="centred", learning_rate=0.003, n_steps=4000
    )
    (winners, losers), weight = pairs(LISTS[:2])[0].T, pairs(LISTS[:2])[1]
    for n in range(2):
        start, end = (
            [np.asarray(net.hidden[0][n], np.float64).T, np.asarray(net.output[n], np.float64)]
            for net in (ranker.theta_0, ranker.theta)
        )
        before = np.array([network.score(start, x) for x in X])

        def loss(theta: np.ndarray, start: Any = start, before: np.ndarray = before) -> float:
            scores = np.array([network.score(network.unflat(theta, start), x) for x in X]) - before
            fit = objective.cross_entropies(scores[winners] - scores[losers], 1.0, weight=weight)
            return fit + objective.network_regulariser(theta, network.flat(start), l2, widths)

        slopes = [objective.central_differences(loss, network.flat(layers)) for layers in (start, end)]
        assert np.linalg.norm(slopes[1]) < 0.05 * np.linalg.norm(slopes[0])
        assert loss(network.flat(end)) < loss(network.flat(start))
        scores = np.array([network.score(end, x) for x in X]) - before
        np.testing.assert_allclose(np.asarray(ranker.scores(QUERY))[:9, n], scores, atol=1e-3)


# Before any click


@cache
def first_lists(name: str, n_draws: int = 12_000) -> Any:
    ranker = small.ranker(name)
    run = eqx.filter_jit(lambda ranker, keys: jax.vmap(lambda key: ranker.rank(small.query(4), key, 3))(keys))
    return run(ranker, jax.random.split(jax.random.key(1), n_draws))


@pytest.mark.as_shipped
@pytest.mark.parametrize("name", ["p2linrank", "p2neurrank", "p2headrank", "p2neurrank-paper", "pairrank"])
def test_before_any_click_all_lists_are_equally_likely(name: str) -> None:
    lists = first_lists(name)
    n_draws = lists.order.shape[0]
    np.testing.assert_array_equal(lists.free, np.broadcast_to([4, 3, 2], (n_draws, 3)))
    np.testing.assert_allclose(lists.log_propensity, -log(factorial(4) / factorial(1)), rtol=1e-5)
    found, counts = np.unique(np.asarray(lists.order), axis=0, return_counts=True)
    assert sorted(map(tuple, found.tolist())) == sorted(permutations(range(4), 3))
    p = 1 / 24
    assert (np.abs(counts - n_draws * p) < 5 * np.sqrt(n_draws * p * (1 - p))).all()


@pytest.mark.parametrize("sort", ["topological", "blocks"])
@pytest.mark.parametrize("name", ["p2linrank", "p2neurrank", "p2headrank"])
def test_the_floor_is_off_until_the_first_click(name: str, sort: str) -> None:
    query = small.query(9, seed=2, prior=np.linspace(0.9, 0.1, 9))
    ranker = small.ranker(name, floor=1.0, sort=sort)
    first = ranker.rank(query, jax.random.key(0), 4)
    assert first.documents.tolist() == [0, 1, 2, 3]
    assert float(first.log_propensity) == 0
    ranker = ranker.learn(small.interaction(query, [0, 1, 2, 3], []), jax.random.key(0))
    assert small.same_bits(ranker.rank(query, jax.random.key(0), 4), first)  # no click has told anything
    ranker = ranker.learn(small.interaction(query, [0, 1, 2, 3], [1]), jax.random.key(0))
    later = ranker.rank(query, jax.random.key(0), 4)
    assert float(later.log_propensity) == pytest.approx(-log(9 * 8 * 7 * 6), rel=1e-5)


def test_a_prior_is_certain_until_clicks_teach_otherwise() -> None:
    query = small.query(9, seed=2, prior=np.linspace(0.09, 0.01, 9))
    ranker = small.ranker("p2linrank", **PAPER | PLAIN)
    assert ranker.rank(query, jax.random.key(0), 4).documents.tolist() == [0, 1, 2, 3]
    for t in range(20):
        ranker = ranker.learn(small.interaction(query, [0, 1, 2, 8], [3]), jax.random.key(t))
    assert int(ranker.rank(query, jax.random.key(0), 4).documents[0]) == 8
