"""Lists of blocks held back by limits, and the probability of a prefix."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from helpers import small

from perturank.core import Limits
from perturank.parts import ordering

N = 5


def test_blocks_are_held_back_too() -> None:
    query = small.query(N)
    certain = jnp.zeros((16, 16), bool)
    far = Limits.of(-jnp.arange(16.0), query.mask, *map(jnp.asarray, (2, 1, True)))
    orders = set()
    for seed in range(20):
        shown = ordering.blocks(-jnp.arange(16.0), certain, query.mask, jax.random.key(seed), N, far)
        orders.add(tuple(map(int, shown.order)))
    assert orders == {(0, 1, 2, 3, 4), (0, 1, 3, 2, 4), (0, 1, 2, 4, 3)}
    assert shown.free.tolist()[:3] == [1, 1, 2]


def test_a_prefix_has_the_probability_of_its_places() -> None:
    ranker, query = small.ranker("pdgd-linear"), small.query(6)
    ranking = ranker.rank(query, jax.random.key(0), 4)
    short = ranker.rank(query, jax.random.key(0), 2)
    assert float(jnp.sum(ranking.log_p[:2])) == pytest.approx(float(short.log_propensity), rel=1e-5)
