"""What every ranker promises of several interactions learned at once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small

from perturank.catalogue import rankers
from perturank.core import FitsBatches, Interaction, Remembers, with_room
from perturank.parts import batches

K = small.PLACES
KEYS = jax.random.split(jax.random.key(5), 3)
FITS_ONCE = small.able(FitsBatches)


def lists(ranker: Any) -> list[Interaction]:
    found = []
    for t in range(3):
        query = small.query(9, seed=t)
        ranking = ranker.rank(query, KEYS[t], K)
        found.append(Interaction.of(query, ranking, ranking.documents[1:2] if t != 1 else []))
    return found


def stacked(seen: list[Interaction]) -> Interaction:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *seen)


@pytest.mark.parametrize("name", rankers())
def test_a_batch_of_one_is_learned_as_one_list_is(name: str) -> None:
    ranker = with_room(small.ranker(name), 4, K)
    first = lists(ranker)[0]
    one, batch = ranker.learn(first, KEYS[0]), batches.learned(ranker, batches.of_one(first), KEYS[:1], jnp.asarray(1))
    for mine, other in zip(small.arrays(one), small.arrays(batch), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", rankers())
def test_the_same_batch_leaves_the_same_bits_whatever_stands_behind_its_last_list(name: str) -> None:
    ranker = with_room(small.ranker(name), 4, K)
    seen = lists(ranker)
    once = batches.learned(ranker, stacked(seen), KEYS, jnp.asarray(2))
    again = batches.learned(ranker, stacked([*seen[:2], seen[0]]), KEYS, jnp.asarray(2))
    assert small.same_bits(once, again)
    nothing = batches.learned(ranker, stacked(seen), KEYS, jnp.asarray(0))
    assert small.same_bits(nothing, ranker)


@pytest.mark.parametrize("name", [name for name in FITS_ONCE if name in small.able(Remembers)])
def test_a_batch_leaves_the_history_that_its_lists_leave_one_by_one(name: str) -> None:
    ranker = with_room(small.ranker(name), 4, K)
    seen, one_by_one = lists(ranker), ranker
    for each, key in zip(seen, KEYS, strict=True):
        one_by_one = one_by_one.learn(each, key)
    batch: Any = batches.learned(ranker, stacked(seen), KEYS, jnp.asarray(3))
    assert not small.same_bits(batch, ranker)
    assert small.is_finite(batch)
    for field in ranker.learning_only:
        assert small.same_bits(getattr(batch, field), getattr(one_by_one, field))


@pytest.mark.parametrize("name", [name for name in rankers() if name not in FITS_ONCE])
def test_where_a_batch_is_not_one_fit_it_is_learned_one_by_one(name: str) -> None:
    ranker = small.ranker(name)
    seen, one_by_one = lists(ranker), ranker
    for each, key in zip(seen, KEYS, strict=True):
        one_by_one = one_by_one.learn(each, key)
    batch = batches.learned(ranker, stacked(seen), KEYS, jnp.asarray(3))
    for mine, other in zip(small.arrays(one_by_one), small.arrays(batch), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
