"""What every ranker promises that says it keeps limits: its lists keep them, and their probabilities are exact.

Lists of four documents are enumerated: the probabilities of all that can be shown sum to 1, and each is shown as often
as its probability says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from perturank.contracts.terms import case, query, require
from perturank.core import Array, KeepsLimits, Limits, Query, Ranking
from perturank.publishing import Published

N = 4
N_DRAWS = 2000
ANYWHERE = 1_000_000
LIMITS = ((0, ANYWHERE), (1, 1), (0, 2), (3, ANYWHERE), (N, 0))  # protected places, displacement

List = tuple[int, ...]


def lists_keep_the_limits_and_have_the_probability_that_they_claim(published: Published) -> None:
    """Protected places and displacement are kept; the probabilities are those of the draws, and sum to 1."""
    for ranker in _rankers(published):
        for protected, displacement in LIMITS:
            limited = _limited(ranker, protected, displacement)
            best, (counts, p) = _best_of(limited), _drawn(ranker, limited)
            where = f"with {protected} places protected and displacement {displacement}"
            for order in counts:
                kept = list(order[:protected]) == best[:protected]
                kept &= all(abs(place - best.index(row)) <= displacement for place, row in enumerate(order))
                require(kept, f"the list {order} breaks the limits {where}", "pass query.limits to parts.ordering")
            total = sum(p.values())  # a few that are hardly ever drawn may be missing
            require(
                0.98 <= total <= 1 + 1e-4, f"the probabilities of all lists sum to {total} {where}", "log_p is exact"
            )
            for order, share in p.items():
                # Five standard deviations, and three draws more: counts of rare lists are not normal.
                near = abs(counts[order] - N_DRAWS * share) <= 5 * np.sqrt(N_DRAWS * share * (1 - share)) + 3
                said = f"{order} was drawn {counts[order]} times of {N_DRAWS}, with probability {share:.4f} {where}"
                require(near, said, "log_p is exact")


def a_list_that_does_not_explore_is_the_best_estimate_with_its_probability(published: Published) -> None:
    """Check that it has the probability that it would have had among those that explore."""
    for ranker in _rankers(published):
        still = _limited(ranker, displacement=2, explores=False)
        (counts, q), best = _drawn(ranker, still), tuple(_best_of(still))
        require(counts == {best: N_DRAWS}, f"lists that do not explore are {dict(counts)}", f"show {best}")
        _, p = _drawn(ranker, _limited(ranker, displacement=2))
        same = np.isclose(q[best], p.get(best, np.nan), rtol=1e-4)
        require(
            same, f"{best} has probability {q[best]}, {p.get(best)} where it explores", "log_p is that of exploring"
        )


def wide_limits_leave_the_probability_of_a_list_as_it_is(published: Published) -> None:
    """Limits that allow everything change nothing."""
    for ranker in _rankers(published):
        limited = _limited(ranker)
        _, wide = _drawn(ranker, limited)
        _, free = _drawn(ranker, Query(limited.features, limited.mask, limited.ids, limited.prior))
        require(set(free) & set(wide), "no list is drawn both with wide limits and without", "wide limits allow all")
        for order in set(free) & set(wide):
            same = np.isclose(wide[order], free[order], rtol=1e-4)
            require(
                same, f"{order} has probability {wide[order]} in wide limits, {free[order]} without", "it is the same"
            )


def _rankers(published: Published) -> tuple[Any, Any]:
    return case(published).fresh, case(published).learned


@eqx.filter_jit
def _draw(ranker: Any, query: Query, keys: Array) -> Ranking:
    return jax.vmap(lambda key: ranker.rank(query, key, N))(keys)


def _limited(ranker: Any, protected: int = 0, displacement: int = ANYWHERE, explores: bool = True) -> Query:
    """Return a query of four documents, with limits around the best estimate of their order."""
    plain = query(N, seed=4)
    given = (jnp.asarray(each) for each in (protected, displacement, explores))
    limits = Limits.of(ranker.score(plain), plain.mask, *given)
    return Query(plain.features, plain.mask, plain.ids, plain.prior, limits)


def _drawn(ranker: Any, query: Query) -> tuple[Counter[List], dict[List, float]]:
    """Return how often each list was drawn, and the probability that it is said to have."""
    rankings = _draw(ranker, query, jax.random.split(jax.random.key(1), N_DRAWS))
    require(rankings.log_propensity is not None, "log_p is None", "a ranker that keeps limits knows its probabilities")
    lists = [tuple(order) for order in np.asarray(rankings.order).tolist()]
    return Counter(lists), dict(zip(lists, np.exp(np.asarray(rankings.log_propensity)).tolist(), strict=True))


def _best_of(query: Query) -> list[int]:
    assert query.limits is not None
    return np.argsort(np.asarray(query.limits.standing))[:N].tolist()


CONTRACTS: dict[Callable[[Published], None], tuple[type, ...]] = {
    lists_keep_the_limits_and_have_the_probability_that_they_claim: (KeepsLimits,),
    a_list_that_does_not_explore_is_the_best_estimate_with_its_probability: (KeepsLimits,),
    wide_limits_leave_the_probability_of_a_list_as_it_is: (KeepsLimits,),
}
