"""The probability of a given list: that of the lists that are drawn, and over all lists 1."""

from __future__ import annotations

from itertools import permutations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small

from perturank.core import Array, Limits, Query, Ranker

N, K = 4, 3
LISTS = np.array(list(permutations(range(N), K)))


@eqx.filter_jit
def log_p(ranker: Ranker, query: Query, lists: Array, displacement: Array) -> Array:
    def one(order: Array) -> Array:
        limits = Limits.of(ranker.score(query), query.mask, jnp.asarray(0), displacement, jnp.asarray(True), order)
        asked = Query(query.features, query.mask, query.ids, query.prior, limits)
        ranking = ranker.rank(asked, jax.random.key(0), K)
        assert ranking.log_p is not None
        return jnp.where(jnp.all(ranking.order == order), jnp.sum(ranking.log_p), jnp.nan)

    return jax.vmap(one)(lists)


@pytest.mark.parametrize("name", ["pdgd-linear", "p2linrank", "epsilon-greedy-linear"])
def test_the_probabilities_of_all_lists_sum_to_one_and_are_those_of_drawn_lists(name: str) -> None:
    ranker, query = small.ranker(name), small.query(N)
    for displacement in (99, 1):
        found = np.exp(np.asarray(log_p(ranker, query, jnp.asarray(LISTS), jnp.asarray(displacement))))
        assert found.sum() == pytest.approx(1, abs=1e-5)
        assert (found >= 0).all()
    free = np.exp(np.asarray(log_p(ranker, query, jnp.asarray(LISTS), jnp.asarray(99))))
    for seed in range(5):
        drawn = ranker.rank(query, jax.random.key(seed), K)
        assert drawn.log_propensity is not None
        among = (np.asarray(drawn.order) == LISTS).all(axis=1)
        assert free[among] == pytest.approx(np.exp(float(drawn.log_propensity)), rel=1e-4)
