"""The law of the preferences that are inferred from the clicks of `preferences` users (prop:pairwise)."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small
from helpers.small import clicked_places

from perturank.catalogue import published
from perturank.clicks import user
from perturank.clicks.luce import Luce
from perturank.datasets import load
from perturank.errors import BadInput
from perturank.experiments import known_truth
from perturank.parts import preferences
from perturank.simulation import Plan, simulate

DRAWS = 200_000
SCORES = [0.8, -1.0, 0.3, 1.1, -0.2]


def inferred(scores: list[float], places: int, beyond: int) -> np.ndarray:
    """Return how often "place i over place j" was inferred, [k, k]; the list ends in empty places."""
    padded = jnp.asarray(np.pad(scores, (0, places - len(scores))))
    mask = jnp.arange(places) < len(scores)

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        clicking, pairing = jax.random.split(key)
        clicks = Luce().click(padded, mask, clicking)
        pairs = preferences.inferred(clicked_places(clicks, mask), pairing, beyond=beyond, pairs="independent")
        return pairs.winner, pairs.loser, pairs.weight

    winner, loser, weight = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), DRAWS))
    counts = np.zeros((places, places))
    np.add.at(counts, (np.asarray(winner).ravel(), np.asarray(loser).ravel()), np.asarray(weight).ravel())
    return counts


def must_obey(counts: np.ndarray, scores: list[float]) -> None:
    """Compare every pair's frequency with σ(f*_i - f*_j), at five standard deviations."""
    for i in range(len(scores)):
        for j in range(i):
            n = counts[i, j] + counts[j, i]
            p = 1 / (1 + np.exp(scores[j] - scores[i]))
            assert n > 1000
            assert abs(counts[i, j] / n - p) < 5 * np.sqrt(p * (1 - p) / n), (i, j)


@pytest.mark.parametrize("places", [5, 10])
def test_inferred_preferences_have_the_law_of_the_proposition(places: int) -> None:
    counts = inferred(SCORES, places, beyond=known_truth.WHOLE_LIST["examined_beyond"])
    assert counts.sum() == DRAWS  # exactly one pair a list
    must_obey(counts, SCORES)


def test_two_places_need_no_more_than_the_papers_l() -> None:
    must_obey(inferred(SCORES[:2], 2, beyond=1), SCORES[:2])


def test_a_list_that_is_read_further_than_it_is_taken_for_breaks_the_law() -> None:
    counts = inferred(SCORES, 5, beyond=1)
    assert counts[3, 0] > 1000
    assert counts[0, 3] == 0


@cache
def documents_of_one_grade() -> list[float]:
    """Return the true scores of five documents of one query of `synthetic-linear` that have the same grade."""
    fold = load("synthetic-linear", n_queries=20)
    labels, offsets, scores = fold.train.labels, fold.train.offsets, fold.true_scores
    assert scores is not None
    rows = next(
        rows for first, last in pairwise(offsets) if len(rows := first + np.flatnonzero(labels[first:last] == 1)) >= 5
    )
    return [float(score) for score in scores[rows[:5]]]


def test_documents_of_one_grade_obey_it_too() -> None:
    scores = documents_of_one_grade()
    assert np.ptp(scores) > 1
    must_obey(inferred(scores, 5, beyond=4), scores)


def test_true_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(BadInput, match="not finite"):
        Luce().check([0.0, np.nan])


def test_data_without_a_known_truth_are_refused() -> None:
    with pytest.raises(BadInput, match="by their true scores, which easy does not have; use data with a known truth"):
        Plan("random", published("random").settings, user("preferences", 3), small.fold(), 10)


@pytest.mark.as_shipped
def test_a_ranker_learns_the_truth_from_them() -> None:
    fold, name = load("synthetic-linear"), known_truth.RANKER
    assert fold.theta_star is not None
    settings = published(name).settings.changed(**known_truth.WHOLE_LIST)
    run = simulate(Plan(name, settings, user("preferences", fold.n_grades), fold, 1000))
    (end,) = run.checkpoints
    assert end.ndcg > 0.98
    theta = np.mean(np.asarray(run.ranker.theta), axis=-1)  # type: ignore[attr-defined]
    assert theta @ fold.theta_star > 0.95 * np.linalg.norm(theta) * np.linalg.norm(fold.theta_star)
