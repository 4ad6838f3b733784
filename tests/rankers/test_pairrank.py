from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from helpers import small
from oracles import certainty, covariance, objective, ordering, preferences

from perturank.core import Query

L2 = 0.5
QUERY = small.query(9, seed=2)
X = np.asarray(QUERY.features, np.float64)[:9]
LISTS = [([0, 1, 2, 3], [0]), ([4, 2, 8, 0], [1, 2]), ([3, 1, 2, 0], [3]), ([5, 6, 7, 8], []), ([0, 1, 2, 3], [0])]


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Return the differences and weights of all pairs of these lists."""
    differences, weights = [], []
    for order, clicked in LISTS:
        clicks = [place in clicked for place in range(4)]
        for i, j in preferences.all_pairs(clicks, 1):
            differences.append(X[order[i]] - X[order[j]])
            weights.append(preferences.balanced_weight(clicks, 1))
    return np.array(differences), np.array(weights)


X_IJ, WEIGHT = pairs()
SCALED = X_IJ * np.sqrt(WEIGHT)[:, None]


def trained(**changes: Any) -> Any:
    given: dict[str, Any] = {
        "pairs": "all",
        "inclusion": "paper",
        "examined_beyond": 1,
        "l2": L2,
        "alpha": 0.1,
    } | changes
    ranker = small.ranker("pairrank", **given)
    for t, (order, clicked) in enumerate(LISTS):
        ranker = ranker.learn(small.interaction(QUERY, order, clicked), jax.random.key(t))
    return ranker


@pytest.fixture(scope="module")
def ranker() -> Any:
    return trained()


def with_settings(ranker: Any, **changes: Any) -> Any:
    """Return what this ranker has learned, under other settings."""
    return dataclasses.replace(ranker, settings=ranker.settings.changed(**changes))


def test_it_is_the_logistic_fit_of_all_clicks_so_far(ranker: Any) -> None:
    expected = objective.linear_fit(X_IJ, 1.0, L2, weight=WEIGHT)
    np.testing.assert_allclose(np.asarray(ranker.theta)[:, 0], expected, atol=5e-3 * np.abs(expected).max())
    np.testing.assert_allclose(ranker.gram, SCALED.T @ SCALED, rtol=1e-4, atol=1e-5)


def test_the_mean_objective_is_the_sum_with_a_regulariser_that_grows() -> None:
    found = np.asarray(trained(objective="mean", l2=0.01).theta)[:, 0]
    expected = objective.linear_fit(X_IJ, 1.0, 2 * 0.01 * WEIGHT.sum(), weight=WEIGHT)
    np.testing.assert_allclose(found, expected, atol=5e-3 * np.abs(expected).max())


@pytest.mark.parametrize("alpha", [0.02, 0.1])
@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_its_certain_orders_are_those_outside_the_confidence_width(ranker: Any, kind: str, alpha: float) -> None:
    a = certainty.covariance(SCALED, L2, diagonal=kind == "diagonal")
    scores = np.asarray(ranker.score(QUERY), np.float64)[:9]
    expected = certainty.confident(scores, X, a, alpha)
    found = with_settings(ranker, covariance=kind, alpha=alpha)
    assert 0 < expected.sum() < 36
    np.testing.assert_array_equal(np.asarray(found.certain(QUERY))[:9, :9], expected)
    assert float(found.uncertain(QUERY)) == pytest.approx(certainty.uncertain_share(expected), abs=1e-6)


def test_the_width_of_the_lemma_is_that_of_its_alpha(ranker: Any) -> None:
    """A lemma's α is so wide that nothing is certain, so it is scaled down to where something is."""
    lemma = with_settings(ranker, alpha="lemma", delta=0.2, noise_bound=0.5)
    alpha = covariance.alpha(SCALED, L2, 0.2, 0.5, c_mu=0.25)
    assert not np.asarray(lemma.certain(QUERY)).any()
    far = Query.of(np.vstack([X[0], X[1], X[1]]), prior=[0.0, 0.0, 0.0])
    width = alpha * certainty.widths(X[:2], certainty.covariance(SCALED, L2))[0, 1]
    assert width > 0.5
    assert not np.asarray(lemma.certain(far)).any()
    near = np.asarray(0.4 / width, np.float32) * (X[0] - X[1])  # σ - 1/2 of a large score exceeds a width of .4
    query = Query.of(np.vstack([near, 0 * near]), prior=[10.0, 0.0])
    wider = Query.of(np.vstack([1.3 * near, 0 * near]), prior=[10.0, 0.0])
    assert np.asarray(lemma.certain(query))[:2, :2].tolist() == [[False, True], [False, False]]
    assert not np.asarray(lemma.certain(wider)).any()


def test_its_lists_never_break_a_certain_order(ranker: Any) -> None:
    sure = with_settings(ranker, alpha=0.02)
    certain = np.asarray(sure.certain(QUERY))[:9, :9]
    for seed in range(20):
        order = sure.rank(QUERY, jax.random.key(seed), 9).documents
        for place, document in enumerate(order):
            assert not certain[order[place + 1 :], document].any()


def test_its_blocks_are_those_of_the_closed_orders(ranker: Any) -> None:
    sure = with_settings(ranker, alpha=0.01, sort="blocks")
    blocks = ordering.blocks(np.asarray(sure.certain(QUERY))[:9, :9])
    assert 1 < len(blocks) < 9
    ranking = sure.rank(QUERY, jax.random.key(0), 9)
    assert np.asarray(ranking.free).tolist() == [n for block in blocks for n in range(len(block), 0, -1)]
    placed = ranking.documents.tolist()
    assert [sorted(placed.pop(0) for _ in block) for block in blocks] == blocks
