"""What every ranker promises that says it keeps limits: its lists keep them, and their probabilities are exact.

Lists of four documents are enumerated: the probabilities of all that can be shown sum to 1, and each is shown as often
as its probability says.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small

from perturank.catalogue import rankers
from perturank.core import Array, KeepsLimits, Limits, Query, Ranking

N = 4
N_DRAWS = 2000
ANYWHERE = 1_000_000
KEYS = jax.random.split(jax.random.key(1), N_DRAWS)
VARIED: dict[str, list[Any]] = {"sort": ["blocks"], "floor": [0.4]}  # settings that decide lists

List = tuple[int, ...]


def variants() -> list[Any]:
    """Return every ranker that keeps limits, and those of one of each kind with other settings that decide lists."""
    found = [pytest.param(name, {}, id=name) for name in small.able(KeepsLimits)]
    for name in set(small.able(KeepsLimits)) & set(small.one_of_each_kind()):
        own = rankers()[name].settings.as_dict()
        changes = [{field: value} for field, values in VARIED.items() for value in values if field in own]
        found += [pytest.param(name, each, id=f"{name} {each}") for each in changes]
    return sorted(found, key=lambda param: str(param.id))


every_variant = pytest.mark.parametrize("name, changes", variants())


@eqx.filter_jit
def drawn_with(ranker: Any, query: Query, keys: Array) -> Ranking:
    return jax.vmap(lambda key: ranker.rank(query, key, N))(keys)


@cache
def rankers_of(name: str, **changes: Any) -> tuple[Any, ...]:
    """Return the ranker before it has learned anything, and after two lists."""
    return small.ranker(name, **changes), small.learned(name, **changes)


def limited(ranker: Any, protected: int = 0, displacement: int = ANYWHERE, explores: bool = True) -> Query:
    """Return a query of four documents, with limits around the best estimate of their order."""
    query = small.query(N, seed=4)
    given = (jnp.asarray(each) for each in (protected, displacement, explores))
    limits = Limits.of(ranker.score(query), query.mask, *given)
    return Query(query.features, query.mask, query.ids, query.prior, limits)


def drawn(ranker: Any, query: Query) -> tuple[Counter[List], dict[List, float]]:
    """Return how often each list was drawn, and the probability that it is said to have."""
    rankings = drawn_with(ranker, query, KEYS)
    lists = [tuple(order) for order in np.asarray(rankings.order).tolist()]
    return Counter(lists), dict(zip(lists, np.exp(np.asarray(rankings.log_propensity)).tolist(), strict=True))


def best_of(query: Query) -> list[int]:
    assert query.limits is not None
    return np.argsort(np.asarray(query.limits.standing))[:N].tolist()


@every_variant
@pytest.mark.parametrize("protected, displacement", [(0, ANYWHERE), (1, 1), (0, 2), (3, ANYWHERE), (N, 0)])
def test_lists_keep_the_limits_and_have_the_probability_that_they_claim(
    name: str, changes: dict[str, Any], protected: int, displacement: int
) -> None:
    for ranker in rankers_of(name, **changes):
        query = limited(ranker, protected, displacement)
        best = best_of(query)
        counts, p = drawn(ranker, query)
        for order in counts:
            assert list(order[:protected]) == best[:protected]
            assert all(abs(place - best.index(row)) <= displacement for place, row in enumerate(order))
        assert sum(p.values()) == pytest.approx(1, abs=0.02)  # a few that are hardly ever drawn may be missing
        assert sum(p.values()) <= 1 + 1e-4
        for order, share in p.items():
            assert abs(counts[order] - N_DRAWS * share) <= 5 * np.sqrt(N_DRAWS * share * (1 - share)) + 1e-3


@every_variant
def test_a_list_that_does_not_explore_is_the_best_estimate_with_its_probability(
    name: str, changes: dict[str, Any]
) -> None:
    for ranker in rankers_of(name, **changes):
        still = limited(ranker, displacement=2, explores=False)
        counts, q = drawn(ranker, still)
        best = tuple(best_of(still))
        assert counts == {best: N_DRAWS}
        _, p = drawn(ranker, limited(ranker, displacement=2))
        assert q[best] == pytest.approx(p[best], rel=1e-4)


@every_variant
def test_wide_limits_leave_the_probability_of_a_list_as_it_is(name: str, changes: dict[str, Any]) -> None:
    for ranker in rankers_of(name, **changes):
        query = limited(ranker)
        _, wide = drawn(ranker, query)
        _, free = drawn(ranker, Query(query.features, query.mask, query.ids, query.prior))
        assert set(free) & set(wide)
        for order in set(free) & set(wide):
            assert wide[order] == pytest.approx(free[order], rel=1e-4)
