"""Rankers that remember so many pairs: what they know is what they remember."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from helpers import small
from oracles import objective

from perturank import simulation, storage
from perturank.core import Fades
from perturank.parts.preferences import n_pairs_at_most
from perturank.runs import Run

QUERY = small.query(9, seed=2)
LISTS = [([0, 1, 2, 3], [0]), ([4, 2, 8, 0], [1, 2]), ([3, 1, 2, 0], [3]), ([5, 6, 7, 8], []), ([0, 1, 2, 3], [0])]
NAMES = ["p2linrank", "p2neurrank", "p2headrank", "pairrank"]
L2 = 0.5
PLAIN: dict[str, dict[str, Any]] = {
    "p2linrank": {"noise_std": 0.0, "loss": "cross-entropy", "l2": L2},
    "pairrank": {"pairs": "all", "l2": L2},
}


def trained(name: str, **changes: Any) -> Any:
    ranker = small.ranker(name, **changes)
    for t, (order, clicked) in enumerate(LISTS):
        ranker = ranker.learn(small.interaction(QUERY, order, clicked), jax.random.key(t))
    return ranker


@pytest.mark.parametrize("name", NAMES)
def test_a_memory_that_is_never_full_changes_no_bit(name: str) -> None:
    whole, roomy = trained(name), trained(name, memory=100)
    assert int(whole.history.n_pairs) == int(roomy.history.n_pairs) > 2
    for key in jax.random.split(jax.random.key(5), 3):
        assert small.same_bits(roomy.rank(QUERY, key, 4), whole.rank(QUERY, key, 4))


@pytest.mark.parametrize("name", list(PLAIN))
def test_it_is_fitted_to_what_it_remembers_alone(name: str) -> None:
    ranker = trained(name, memory=4, **PLAIN[name])
    history, n = ranker.history, int(ranker.history.n_pairs)
    assert 0 < n <= 5  # two that stayed, and three of a list
    documents, first, second, weight, preferred = (
        np.asarray(each, np.float64)
        for each in (
            history.documents,
            history.first[:n],
            history.second[:n],
            history.weight[:n],
            history.preferred[:n],
        )
    )
    x_ij = documents[first.astype(int)] - documents[second.astype(int)]
    expected = objective.linear_fit(x_ij, preferred / weight, L2, weight=weight)
    np.testing.assert_allclose(np.asarray(ranker.theta)[:, 0], expected, atol=5e-3 * np.abs(expected).max())
    np.testing.assert_allclose(ranker.gram, (x_ij.T * weight) @ x_ij, rtol=1e-4, atol=1e-5)


def test_noise_that_is_kept_is_that_of_what_is_remembered() -> None:
    """Its sum is N(0, ν²A), with A = λI + Σ w x xᵀ over the pairs that are left."""
    n, std = 4000, 0.3
    ranker = trained("p2linrank", memory=4, noise="frozen", n_rankers=n, noise_std=std, l2=L2)
    covariance = std**2 * np.asarray(ranker.feature_covariance, np.float64)
    white = np.cov(np.linalg.inv(np.linalg.cholesky(covariance)) @ np.asarray(ranker.pull, np.float64))
    np.testing.assert_allclose(white, np.eye(len(white)), atol=5 * np.sqrt(2 / n))


@pytest.mark.parametrize("name", NAMES)
def test_a_forgetful_ranker_is_saved_and_goes_on_with_the_same_bits(name: str, tmp_path: Path) -> None:
    ranker = trained(name, memory=4)
    storage.save(ranker, tmp_path / "ranker.safetensors")
    loaded = storage.load(tmp_path / "ranker.safetensors")
    again = small.interaction(QUERY, [8, 4, 2, 6], [1])
    assert small.same_bits(loaded.learn(again, jax.random.key(9)), ranker.learn(again, jax.random.key(9)))


@pytest.mark.parametrize("name", NAMES[:3])
def test_what_is_forgotten_does_not_depend_on_how_rounds_are_cut_into_programs(name: str) -> None:
    fold = small.fold()
    plan = simulation.Plan(
        ranker=name,
        settings=small.settings(name, memory=40),
        user=small.PERFECT,
        fold=fold,
        rounds=60,
        seed=3,
        evaluate_at=(60,),
        top=small.PLACES,
    )
    whole, in_parts = simulation.simulate(plan), simulation.simulate(plan, longest_chunk=7)
    assert small.same_bits((whole.ndcgs, known(whole)), (in_parts.ndcgs, known(in_parts)))


def known(run: Run) -> Any:
    """Return what was learned and how much is remembered: the room for it may differ."""
    ranker: Any = run.ranker
    assert int(ranker.history.n_pairs) < 40 + n_pairs_at_most(small.PLACES, "all")
    return getattr(ranker, "fit", None) or ranker.theta, ranker.history.n_pairs, ranker.history.n_documents


@pytest.mark.parametrize("name", small.able(Fades))
def test_a_faded_memory_keeps_the_scores(name: str) -> None:
    learned, shown = small.learned(name), small.query(seed=0)
    assert np.array_equal(learned.score(shown), learned.faded(0.05).score(shown))


@pytest.mark.parametrize("name", ["p2linrank", "p2headrank"])
def test_a_faded_memory_yields_to_a_few_clicks_that_contradict_many(name: str) -> None:
    ranker = small.ranker(name).with_room(30, 4)

    def clicked(ranker: Any, place: int, n: int) -> Any:
        for t in range(n):
            ranker = ranker.learn(small.interaction(QUERY, [0, 1, 2, 3], [place]), jax.random.key(t))
        return ranker

    def first(ranker: Any) -> int:
        return int(np.argmax(np.asarray(ranker.score(QUERY))[:4]))

    before = clicked(ranker, 0, 20)
    assert (first(before), first(clicked(before, 1, 5))) == (0, 0)
    assert first(clicked(before.faded(0.05), 1, 5)) == 1
