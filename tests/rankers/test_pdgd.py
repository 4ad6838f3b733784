from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small
from oracles import network, preferences, updates

from perturank.core import Interaction, Query
from perturank.rankers.pdgd import reversal

QUERY = small.query(6, seed=3)
X = np.asarray(QUERY.features, np.float64)[:6]
PLACES = small.PLACES


def learned_from(name: str, clicked: list[int]) -> tuple[object, object, np.ndarray, list[int], list[tuple[int, int]]]:
    ranker = small.ranker(name, learning_rate=0.5, decay=0.9, examined_beyond=1)
    for seed in range(3):  # away from 0
        ranking = ranker.rank(QUERY, jax.random.key(seed), PLACES)
        ranker = ranker.learn(Interaction.of(QUERY, ranking, [int(ranking.documents[0])]), jax.random.key(seed))
    ranking = ranker.rank(QUERY, jax.random.key(9), PLACES)
    shown = ranking.documents.tolist()
    later = ranker.learn(Interaction.of(QUERY, ranking, [shown[place] for place in clicked]), jax.random.key(9))
    scores = np.asarray(ranker.score(QUERY), np.float64)[:6]
    pairs = preferences.all_pairs([place in clicked for place in range(PLACES)], 1)
    return ranker, later, scores, shown, pairs


@pytest.mark.parametrize("clicked", [[1], [0, 2], [3], []])
def test_a_linear_update_is_the_debiased_gradient_of_the_paper(clicked: list[int]) -> None:
    ranker, later, scores, shown, pairs = learned_from("pdgd-linear", clicked)
    rate = float(ranker.rate)  # type: ignore[attr-defined]
    expected = rate * updates.pdgd_gradient(scores, X, shown, pairs)
    moved = np.asarray(later.theta.weight - ranker.theta.weight)  # type: ignore[attr-defined]
    np.testing.assert_allclose(moved, expected, rtol=1e-3, atol=1e-6)
    assert float(later.rate) == pytest.approx(rate * (0.9 if pairs else 1))  # type: ignore[attr-defined]


def test_an_update_of_a_network_is_the_debiased_gradient_through_it() -> None:
    ranker, later, scores, shown, pairs = learned_from("pdgd-neural", [0, 2])
    old, new = ranker.theta, later.theta  # type: ignore[attr-defined]
    layers = [np.asarray(old.hidden[0], np.float64).T, np.asarray(old.output, np.float64) / np.sqrt(8)]
    jacobian = [network.gradient(layers, x) for x in X]
    # The oracle scales by √m; ours by 1: its last layer is divided by √m above, and so is its gradient here.
    flat = np.stack([np.concatenate([h.T.ravel(), o / np.sqrt(8)]) for h, o in jacobian])
    expected = float(ranker.rate) * updates.pdgd_gradient(scores, flat, shown, pairs)  # type: ignore[attr-defined]
    moved = [(new.hidden[0] - old.hidden[0]).ravel(), new.output - old.output]
    np.testing.assert_allclose(np.concatenate(moved), expected, rtol=1e-3, atol=1e-5)
    assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("spread", [1.0, 10.0])
def test_reversals_have_the_share_of_the_exchanged_list(spread: float) -> None:
    rng, shown = np.random.default_rng(1), [4, 0, 5, 2]
    for _ in range(5):
        scores = (spread * rng.normal(size=6)).astype(np.float32)
        left = [np.log(sum(np.exp(np.float64(scores[d])) for d in range(6) if d not in shown[:p])) for p in range(4)]
        found = np.asarray(reversal(jnp.asarray(scores[shown]), jnp.asarray(left, jnp.float32)))
        for i in range(4):
            for j in range(4):
                expected = updates.pdgd_rho(scores.astype(np.float64), shown, (i, j)) if i != j else 0.5
                assert found[i, j] == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_a_prior_that_sets_scores_far_apart_is_no_trouble() -> None:
    query = Query.of(small.rows(4), prior=[0.0, -100.0, -200.0, -300.0])
    ranker = small.ranker("pdgd-linear")
    ranking = ranker.rank(query, jax.random.key(0), PLACES)
    assert ranking.documents.tolist() == [0, 1, 2, 3]
    assert float(ranking.log_propensity) == pytest.approx(0, abs=1e-5)
    assert small.is_finite(ranker.learn(Interaction.of(query, ranking, [1, 3]), jax.random.key(0)))
    tied = Query.of(small.rows(4), prior=[0.0, -200.0, -200.0, -300.0])
    ranking = ranker.rank(tied, jax.random.key(0), PLACES)
    assert float(ranking.log_propensity) == pytest.approx(np.log(0.5), abs=1e-4)
    moved = ranker.learn(Interaction.of(tied, ranking, [int(ranking.documents[1])]), jax.random.key(0)).theta.weight
    first, second = ranking.documents[1:3]
    expected = 0.05 * 0.5 / 4 * (small.rows(4)[first] - small.rows(4)[second])
    np.testing.assert_allclose(moved, expected, rtol=1e-3)
