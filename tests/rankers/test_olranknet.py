from __future__ import annotations

from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
import small
from oracles import certainty, covariance, network, preferences

L2, M = 0.5, 8
QUERY = small.query(9, seed=2)
X = np.asarray(QUERY.features, np.float64)[:9]
LISTS = [([0, 1, 2, 3], [0]), ([4, 2, 8, 0], [1, 2]), ([5, 6, 7, 8], []), ([3, 1, 2, 0], [3])]


def gradients(ranker: Any) -> np.ndarray:
    """Return g(x; θ)/√m of every document, by hand; [V, p]."""
    net = ranker.theta
    layers = [np.asarray(net.hidden[0][0], np.float64).T, np.asarray(net.output[0], np.float64)]
    found = [network.gradient(layers, x) for x in X]
    return np.stack([np.concatenate([h.T.ravel(), o]) for h, o in found]) / np.sqrt(M)


@cache
def trained(kind: str) -> tuple[Any, np.ndarray]:
    """Return a ranker after a few lists, and the gradient differences it was widened by, each at its own time."""
    ranker, news = (
        small.ranker(
            "olranknet", l2=L2, covariance=kind, start="centred", pairs="all", inclusion="paper", examined_beyond=1
        ),
        [],
    )
    for t, (order, clicked) in enumerate(LISTS):
        clicks, g = [place in clicked for place in range(4)], gradients(ranker)
        weight = preferences.balanced_weight(clicks, 1)
        news += [np.sqrt(weight) * (g[order[i]] - g[order[j]]) for i, j in preferences.all_pairs(clicks, 1)]
        ranker = ranker.learn(small.interaction(QUERY, order, clicked), jax.random.key(t))
    return ranker, np.array(news)


def test_its_inverse_covariance_is_that_of_the_sum_of_outer_products() -> None:
    ranker, news = trained("full")
    a = certainty.covariance(news, L2)
    np.testing.assert_allclose(ranker.covariance, np.linalg.inv(a), atol=1e-3)
    assert np.abs(np.linalg.inv(a) - np.eye(len(a)) / L2).max() > 0.5
    assert float(ranker.log_det) == pytest.approx(covariance.log_det_ratio(news, L2), rel=1e-3)


def test_its_diagonal_is_that_of_the_sum_of_outer_products() -> None:
    ranker, news = trained("diagonal")
    a = np.diag(certainty.covariance(news, L2))
    np.testing.assert_allclose(ranker.covariance, a, rtol=1e-3)
    assert float(ranker.log_det) == pytest.approx(np.log(a / L2).sum(), rel=1e-3)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_its_certain_orders_are_those_outside_the_confidence_width(kind: str) -> None:
    ranker, news = trained(kind)
    a = certainty.covariance(news, L2, diagonal=kind == "diagonal")
    scores = np.asarray(ranker.score(QUERY), np.float64)[:9]
    expected = certainty.confident(scores, gradients(ranker), a, 0.05)
    assert 0 < expected.sum() < 36
    np.testing.assert_array_equal(np.asarray(ranker.certain(QUERY))[:9, :9], expected)


def test_the_width_of_the_lemma_is_that_of_its_alpha() -> None:
    ranker, news = trained("full")
    alpha = covariance.alpha(news, L2, 0.2, 0.5, c_mu=0.25)
    by_lemma, by_number = (
        eqx.tree_at(lambda r: r.theta, type(ranker)(ranker.settings.changed(**changes), *fields(ranker)), ranker.theta)
        for changes in ({"alpha": "lemma", "delta": 0.2, "noise_bound": 0.5}, {"alpha": alpha})
    )
    assert float(by_lemma._alpha()) == pytest.approx(float(by_number._alpha()), rel=1e-3)


def fields(ranker: Any) -> tuple[Any, ...]:
    return ranker.theta, ranker.theta_0, ranker.optimiser, ranker.covariance, ranker.log_det, ranker.history
