"""Lists held back by limits: what they may be, and that their probabilities are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from perturank.core import Limits, Query
from perturank.parts import ordering

N = 5
STIFF: dict[str, Any] = {"floor": 0.4, "l2": 1e6}  # has learned, but a prior still decides
RANKERS: dict[str, Callable[[], Any]] = {
    **{
        name: partial(small.ranker, name)
        for name in ("p2linrank", "p2headrank", "pairrank", "pdgd-linear", "epsilon-greedy-linear", "random")
    },
    "p2linrank with a floor": partial(small.learned, "p2linrank", **STIFF),
    "p2linrank with a floor, in blocks": partial(small.learned, "p2linrank", sort="blocks", **STIFF),
    "p2headrank with a floor": partial(small.learned, "p2headrank", l2_output=1e6, **STIFF),
}
NAMES = list(RANKERS)
FREE = 1_000_000


def limited(
    query: Query, scores: jax.Array, protected: int = 0, displacement: int = FREE, explores: bool = True
) -> Query:
    limits = Limits.of(scores, query.mask, jnp.asarray(protected), jnp.asarray(displacement), jnp.asarray(explores))
    return Query(query.features, query.mask, query.ids, query.prior, limits)


def drawn(name: str, query: Query, n: int = 3000) -> tuple[Counter[tuple[int, ...]], dict[tuple[int, ...], float]]:
    """Return how often each list of five documents was drawn, and the probability that it was said to have."""
    ranker = RANKERS[name]()
    rankings = jax.vmap(lambda key: ranker.rank(query, key, N))(jax.random.split(jax.random.key(1), n))
    lists = [tuple(map(int, each)) for each in np.asarray(rankings.order)]
    return Counter(lists), dict(zip(lists, np.exp(np.asarray(rankings.log_propensity)), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_no_list_breaks_its_limits_and_probabilities_are_those_of_the_draws(name: str) -> None:
    query = small.query(N, prior=[0.3, 0.1, 0.5, 0.2, 0.4])
    best = (2, 4, 0, 3, 1)
    counts, p = drawn(name, limited(query, query.prior, protected=1, displacement=1))
    allowed = [order for order in permutations(range(N)) if order[0] == best[0]]
    allowed = [order for order in allowed if all(abs(order.index(d) - best.index(d)) <= 1 for d in range(N))]
    assert len(allowed) == 5
    assert set(counts) <= set(allowed)
    assert sum(p.values()) <= 1 + 1e-5
    for order, share in p.items():
        assert counts[order] / 3000 == pytest.approx(share, abs=0.05)
    if "floor" in name:
        assert set(counts) == set(allowed)
        assert sum(p.values()) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_a_list_that_does_not_explore_has_the_probability_of_being_drawn(name: str) -> None:
    query = small.query(N, prior=[0.3, 0.1, 0.5, 0.2, 0.4])
    counts, p = drawn(name, limited(query, query.prior, displacement=2))
    still, q = drawn(name, limited(query, query.prior, displacement=2, explores=False), 3)
    assert still == {(2, 4, 0, 3, 1): 3}
    assert counts[2, 4, 0, 3, 1] / 3000 == pytest.approx(q[2, 4, 0, 3, 1], abs=0.05)
    if (2, 4, 0, 3, 1) in p:
        assert q[2, 4, 0, 3, 1] == pytest.approx(p[2, 4, 0, 3, 1], rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_wide_limits_leave_the_probability_of_a_list_as_it_is(name: str) -> None:
    query = small.query(3)
    _, free = drawn(name, query, 300)
    _, wide = drawn(name, limited(query, jnp.zeros(16)), 300)
    for order in set(free) & set(wide):
        assert wide[order] == pytest.approx(free[order], rel=1e-4)


def test_blocks_are_held_back_too() -> None:
    query = small.query(N)
    certain = jnp.zeros((16, 16), bool)
    far = limited(query, -jnp.arange(16.0), protected=2, displacement=1).limits
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
