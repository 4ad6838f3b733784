"""Several interactions at once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from perturank import clicks, datasets
from perturank.catalogue import rankers
from perturank.core import Interaction, with_room
from perturank.errors import BadInput
from perturank.parts import batches
from perturank.simulation import Plan, simulate

K = small.PLACES
KEYS = jax.random.split(jax.random.key(5), 3)
WITH_HISTORY = ["p2linrank", "p2neurrank", "p2headrank", "p2neurrank-paper", "p2linrank-paper", "pairrank", "olranknet"]
WITHOUT = ["pdgd-linear", "epsilon-greedy-linear", "dbgd-linear"]


def lists(ranker: Any) -> list[Interaction]:
    found = []
    for t in range(3):
        query = small.query(9, seed=t)
        ranking = ranker.rank(query, KEYS[t], K)
        found.append(Interaction.of(query, ranking, ranking.documents[1:2] if t != 1 else []))
    return found


def stacked(seen: list[Interaction]) -> Interaction:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *seen)


@pytest.mark.parametrize("name", WITH_HISTORY + WITHOUT)
def test_a_batch_of_one_is_learned_as_one_list_is(name: str) -> None:
    ranker = with_room(small.ranker(name), 4, K)
    first = lists(ranker)[0]
    one, batch = ranker.learn(first, KEYS[0]), batches.learned(ranker, batches.of_one(first), KEYS[:1], jnp.asarray(1))
    for mine, other in zip(small.arrays(one), small.arrays(batch), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", WITH_HISTORY + WITHOUT)
def test_what_stands_behind_the_last_list_of_a_batch_does_not_matter(name: str) -> None:
    ranker = with_room(small.ranker(name), 4, K)
    seen = lists(ranker)
    once = batches.learned(ranker, stacked(seen), KEYS, jnp.asarray(2))
    again = batches.learned(ranker, stacked([*seen[:2], seen[0]]), KEYS, jnp.asarray(2))
    assert small.same_bits(once, again)
    nothing = batches.learned(ranker, stacked(seen), KEYS, jnp.asarray(0))
    assert small.same_bits(nothing, ranker)


@pytest.mark.parametrize("name", WITH_HISTORY)
def test_a_batch_leaves_the_history_that_its_lists_leave_one_by_one(name: str) -> None:
    ranker = with_room(small.ranker(name), 4, K)
    seen, one_by_one = lists(ranker), ranker
    for each, key in zip(seen, KEYS, strict=True):
        one_by_one = one_by_one.learn(each, key)
    batch: Any = batches.learned(ranker, stacked(seen), KEYS, jnp.asarray(3))
    assert not small.same_bits(batch, ranker)
    for mine, other in zip(jax.tree.leaves(batch.history), jax.tree.leaves(one_by_one.history), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("name", WITHOUT)
def test_rankers_without_a_history_learn_a_batch_one_by_one(name: str) -> None:
    ranker = small.ranker(name)
    seen, one_by_one = lists(ranker), ranker
    for each, key in zip(seen, KEYS, strict=True):
        one_by_one = one_by_one.learn(each, key)
    batch = batches.learned(ranker, stacked(seen), KEYS, jnp.asarray(3))
    for mine, other in zip(small.arrays(one_by_one), small.arrays(batch), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_rounds_of_a_batch_are_ranked_by_the_ranker_before_it() -> None:
    fold = datasets.load("synthetic-linear")
    user = clicks.user("perfect", fold.n_grades)

    def ndcgs(batch: int) -> np.ndarray:
        settings = rankers()["pdgd-linear"].settings
        return simulate(Plan("pdgd-linear", settings, user, fold, 40, batch=batch)).ndcgs

    one, ten = ndcgs(1), ndcgs(10)
    start = simulate(
        Plan("pdgd-linear", rankers()["pdgd-linear"].settings.changed(learning_rate=1e-30), user, fold, 10)
    )
    np.testing.assert_allclose(ten[:10], start.ndcgs, rtol=1e-6)  # nothing is learned before the tenth round
    assert (one[1:10] != ten[1:10]).any()
    assert (ten[10:] != ndcgs(20)[10:]).any()


def test_batches_are_learned_whole() -> None:
    fold = datasets.load("synthetic-linear")
    settings = rankers()["pdgd-linear"].settings
    with pytest.raises(BadInput, match="must divide 100"):
        Plan("pdgd-linear", settings, clicks.user("perfect", fold.n_grades), fold, 100, batch=30)
