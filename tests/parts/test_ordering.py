"""Every law of lists against its enumeration: four documents in six rows, so that there is padding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import certainty
from oracles import ordering as oracle

from perturank.core import Array, Limits
from perturank.parts import ordering
from perturank.parts.ordering import Draw

N, V = 4, 6
MASK = jnp.arange(V) < N
N_DRAWS = 20_000
KEYS = jax.random.split(jax.random.key(17), N_DRAWS)
Law = Mapping[Any, float]


def padded(array: Any, value: float = 0.0) -> Array:
    """Return an array of documents along every axis, with padding that must not matter."""
    return jnp.pad(jnp.asarray(array), [(0, V - N)] * np.ndim(array), constant_values=value)


def must_follow(law: Law, drawn: list[Any]) -> None:
    """Check that only possible lists were drawn, each about as often as the law says."""
    counts = Counter(drawn)
    assert set(counts) <= set(law)
    assert sum(law.values()) == pytest.approx(1)
    for value, p in law.items():
        deviation = np.sqrt(len(drawn) * p * (1 - p))
        assert abs(counts[value] - len(drawn) * p) <= 5 * deviation + 1e-6, value


def lists(order: Any, k: int) -> list[tuple[int, ...]]:
    """Return the real part of every list drawn, after checking the padded part."""
    rows = np.asarray(order)
    assert all(len(set(row)) == k for row in rows[:200].tolist())
    assert (rows[:, min(k, N) :] >= N).all()
    return [tuple(row) for row in rows[:, : min(k, N)].tolist()]


def draws(one: Callable[[Array], Any]) -> Any:
    """Return `one(key)` for very many keys."""
    return jax.jit(jax.vmap(one))(KEYS)


def must_be_exact(shown: Draw, law: Law, k: int, n_free: Callable[[tuple[int, ...]], list[int]]) -> None:
    """Check frequencies, the probability that each list claims to have, and what could have stood at each place."""
    drawn = lists(shown.order, k)
    must_follow(law, drawn)
    claimed, free = (
        dict(zip(drawn, np.exp(np.asarray(shown.log_propensity)), strict=True)),
        dict(zip(drawn, np.asarray(shown.free).tolist(), strict=True)),
    )
    for value, p in claimed.items():
        assert p == pytest.approx(law[value], rel=1e-4)
        assert free[value] == n_free(value) + [0] * (k - min(k, N))


# Not transitive: what confidence widths can give. 0 before 1 before 2, but 0 and 2 are uncertain; 3 before 1.
CONFIDENT = np.zeros((N, N), bool)
CONFIDENT[0, 1] = CONFIDENT[1, 2] = CONFIDENT[3, 1] = True
AGREED = certainty.unanimous(np.array([[1.0, 3.0, 2.0, 0.0], [1.0, 2.0, 3.0, 0.5]]))


@pytest.mark.parametrize("k", [3, 6])
def test_topological_lists_follow_certain_orders_and_are_uniform_otherwise(k: int) -> None:
    def one(key: Array, matrix: Array) -> Draw:
        before = jnp.sum(matrix, axis=0, dtype=jnp.int32)
        return ordering.topological(before, lambda pick: matrix[pick], MASK, key, k)

    run = jax.jit(jax.vmap(one, (0, None)))
    for certain in (AGREED, CONFIDENT, np.zeros((N, N), bool)):
        n_free = lambda order, certain=certain: [
            len(oracle.free(certain, order[:place])) for place in range(len(order))
        ]
        must_be_exact(run(KEYS, padded(certain).astype(bool)), oracle.topological_lists(certain, k), k, n_free)


SCORES = np.array([2.0, 3.0, 1.0, 2.5])  # agrees with the orders below
SPLIT = np.zeros((N, N), bool)
SPLIT[np.ix_([1, 3], [0, 2])] = True  # two blocks of two
CHAINED = np.zeros((N, N), bool)
CHAINED[1, 3] = CHAINED[3, 0] = CHAINED[3, 2] = CHAINED[1, 0] = CHAINED[1, 2] = True


def test_blocks_keep_their_order_and_are_shuffled_whole() -> None:
    k = 3
    run = jax.jit(jax.vmap(lambda key, c: ordering.blocks(padded(SCORES, 9.0), c, MASK, key, k), (0, None)))
    for certain in (SPLIT, CHAINED, np.zeros((N, N), bool)):
        sizes = [n for block in oracle.blocks(certain) for n in range(len(block), 0, -1)]
        n_free = lambda order, sizes=sizes: sizes[: len(order)]
        must_be_exact(run(KEYS, padded(certain).astype(bool)), oracle.block_lists(certain, k), k, n_free)


def test_blocks_of_many_random_orders_are_those_of_the_oracle() -> None:
    """Blocks read off cumulative sums are the connected components of the uncertain pairs."""
    rng = np.random.default_rng(1)
    run = jax.jit(lambda s, c, key: ordering.blocks(s, c, MASK, key, V))
    for trial in range(60):
        scores = rng.permutation(N).astype(np.float32)
        acyclic = (scores[:, None] > scores[None, :]) & (rng.random((N, N)) < 0.8)
        reach = certainty.closure(acyclic)
        shown = run(padded(scores, 9.0), padded(reach).astype(bool), jax.random.key(trial))
        sizes = [n for block in oracle.blocks(reach) for n in range(len(block), 0, -1)]
        assert np.asarray(shown.free).tolist() == [*sizes, 0, 0]
        law = oracle.block_lists(reach, N)
        assert float(jnp.exp(shown.log_propensity)) == pytest.approx(
            law[tuple(np.asarray(shown.order)[:N].tolist())], rel=1e-4
        )


def test_who_is_free_in_a_given_order_is_whom_nobody_left_certainly_precedes() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(200, 2))
    certain = certainty.unanimous(scores.T)
    best = np.argsort(-scores.mean(axis=1))
    anywhere = Limits.of(jnp.asarray(scores.mean(axis=1)), jnp.ones(200, bool), *map(jnp.asarray, (0, 1000, True)))
    found = ordering.free_sets(jnp.asarray(certain), jnp.ones(200, bool), jnp.asarray(best[:50]), anywhere)
    for place, free in enumerate(np.asarray(found)):
        assert set(np.flatnonzero(free)) == set(oracle.free(certain, tuple(best[:place])))


# A floor: some places go to any document, whatever is certain

FLOOR = 0.3


def topological(key: Array, matrix: Array, floor: Array | None, k: int = 3, limits: Limits | None = None) -> Draw:
    before = jnp.sum(matrix, axis=0, dtype=jnp.int32)
    return ordering.topological(before, lambda pick: matrix[pick], MASK, key, k, limits, floor)


def blocks(key: Array, matrix: Array, floor: Array | None, k: int = 3, limits: Limits | None = None) -> Draw:
    return ordering.blocks(padded(SCORES, 9.0), matrix, MASK, key, k, limits, floor)


def limits(protected: int, displacement: int) -> Limits:
    return Limits.of(padded(SCORES), MASK, jnp.asarray(protected), jnp.asarray(displacement), jnp.asarray(True))


STANDING = np.argsort(np.argsort(-SCORES)).tolist()  # each document's place by score
LIMITS = {"free": None, "near": (0, 1), "top protected": (1, 2)}
Sort = Callable[..., Draw]


@pytest.mark.parametrize("held", list(LIMITS))
@pytest.mark.parametrize("sort, next_free", [(topological, oracle.free), (blocks, oracle.first_block)])
def test_lists_with_a_floor_have_their_exact_probability(sort: Sort, next_free: Any, held: str) -> None:
    around = LIMITS[held]
    given = None if around is None else limits(*around)
    allowed = None if around is None else oracle.held_back(STANDING, *around)
    run = jax.jit(jax.vmap(lambda key, c: sort(key, c, jnp.asarray(FLOOR), 3, given), (0, None)))
    for certain in (SPLIT, CHAINED, np.zeros((N, N), bool)):

        def may_stand(placed: tuple[int, ...], certain: np.ndarray = certain) -> list[int]:
            some, left = next_free(certain, placed), [d for d in range(N) if d not in placed]
            return list(some if allowed is None else allowed(some, left, len(placed)))

        def n_free(order: tuple[int, ...], may_stand: Any = may_stand) -> list[int]:
            return [len(may_stand(order[:place])) for place in range(len(order))]

        law = oracle.place_by_place(N, 3, may_stand, FLOOR, allowed)
        must_be_exact(run(KEYS, padded(certain).astype(bool)), law, 3, n_free)


@pytest.mark.parametrize("sort", [topological, blocks])
def test_a_floor_of_one_makes_every_list_equally_likely(sort: Sort) -> None:
    shown = draws(lambda key: sort(key, padded(CHAINED).astype(bool), jnp.asarray(1.0), V))
    law = oracle.topological_lists(np.zeros((N, N), bool), V)
    must_follow(law, lists(shown.order, V))
    np.testing.assert_allclose(shown.log_propensity, -np.log(len(law)), rtol=1e-5)


@pytest.mark.parametrize("given", [None, (1, 1)])
def test_a_floor_of_zero_shows_the_lists_that_are_shown_without_one(given: tuple[int, int] | None) -> None:
    """Blocks are shuffled whole where there is neither floor nor limit: by other draws of the same law."""
    around, floors = None if given is None else limits(*given), (None, jnp.asarray(0.0))
    for sort in (topological,) if given is None else (topological, blocks):
        for certain in (AGREED, CHAINED) if sort is topological else (CHAINED,):
            matrix = padded(certain).astype(bool)
            without, zero = (draws(partial(sort, matrix=matrix, floor=f, k=V, limits=around)) for f in floors)
            np.testing.assert_array_equal(zero.order, without.order)
            np.testing.assert_array_equal(zero.free, without.free)
            np.testing.assert_allclose(zero.log_p, without.log_p, rtol=1e-6)


@pytest.mark.parametrize("k", [3, 6])
def test_plackett_luce_lists_have_odds_of_e_to_the_score(k: int) -> None:
    scores = [0.5, -1.0, 0.5, 1.5]
    shown, log_left = draws(lambda key: ordering.plackett_luce(padded(scores, 9.0), MASK, key, k))
    must_be_exact(
        shown, oracle.plackett_luce_lists(scores, k), k, lambda order: [N - place for place in range(len(order))]
    )
    for drawn, left in list(zip(lists(shown.order, k), np.asarray(log_left), strict=True))[:50]:
        for place in range(len(drawn)):
            rest = [scores[d] for d in range(N) if d not in drawn[:place]]
            assert left[place] == pytest.approx(np.log(np.sum(np.exp(rest))), abs=1e-5)


def test_a_plackett_luce_list_of_scores_far_apart_has_its_exact_probability() -> None:
    scores = [0.0, -150.0, -300.0, -300.0]
    run = jax.jit(lambda key: ordering.plackett_luce(padded(scores, 9.0), MASK, key, V))
    shown, log_left = run(jax.random.key(0))
    assert np.asarray(shown.order)[:2].tolist() == [0, 1]
    np.testing.assert_allclose(np.asarray(log_left)[:N], [0, -150, -300 + np.log(2), -300], rtol=1e-5)
    assert float(shown.log_propensity) == pytest.approx(np.log(0.5), rel=1e-4)


@pytest.mark.parametrize("epsilon, k", [(0.0, 3), (0.3, 6)])
def test_epsilon_greedy_lists_are_the_best_but_for_random_places(epsilon: float, k: int) -> None:
    scores = [0.5, -1.0, 0.5, 1.5]
    shown = draws(lambda key: ordering.epsilon_greedy(padded(scores, 9.0), MASK, epsilon, key, k))
    n_free = lambda order: [N - place for place in range(len(order))] if epsilon else [1, 2, 1]
    must_be_exact(shown, oracle.epsilon_greedy_lists(scores, k, epsilon), k, n_free)


RANKINGS = [[0, 1, 2, 3], [3, 1, 0, 2], [0, 3, 1, 2]]


def scores_of(rankings: list[list[int]]) -> Array:
    """Return scores that sort the documents like this; [R, V], padding on top."""
    scores = np.full((len(rankings), V), 9.0)
    for ranker, ranking in enumerate(rankings):
        scores[ranker, ranking] = -np.arange(N)
    return jnp.asarray(scores)


def test_the_top_lists_are_sorted_with_ties_at_random_and_padding_last() -> None:
    tied = jnp.asarray([[1.0, 0.0, 1.0, 2.0, 9.0, 9.0], [0.0, 3.0, 2.0, 1.0, 9.0, 9.0]])
    found = np.asarray(draws(lambda key: ordering.tops(tied, MASK, key, V)))
    must_follow({(3, 0, 2, 1): 0.5, (3, 2, 0, 1): 0.5}, lists(found[:, 0], V))
    must_follow({(1, 2, 3, 0): 1.0}, lists(found[:, 1], V))


@pytest.mark.parametrize("n_rankers, k", [(2, 3), (3, 6)])
def test_a_team_draft_is_that_of_the_oracle(n_rankers: int, k: int) -> None:
    rankings = RANKINGS[:n_rankers]
    given = jnp.asarray([[*ranking, 4, 5][:k] for ranking in rankings])
    shown, teams = draws(lambda key: ordering.team_draft(given, MASK, key, k))
    n_real = min(k, N)
    drawn = list(zip(lists(shown.order, k), map(tuple, np.asarray(teams)[:, :n_real].tolist()), strict=True))
    must_follow(oracle.team_drafts(rankings, k), drawn)
    assert shown.log_propensity is None
    for (order, team), free in dict(zip(drawn, np.asarray(shown.free).tolist(), strict=True)).items():
        for place in range(n_real):
            sizes = [team[:place].count(ranker) for ranker in range(n_rankers)]
            drafting = [r for r in range(n_rankers) if sizes[r] == min(sizes)]
            assert free[place] == len({next(d for d in rankings[r] if d not in order[:place]) for r in drafting})
        assert free[n_real:] == [0] * (k - n_real)


@pytest.mark.parametrize("n_rankers, k, tau", [(3, 6, 2.0)])
def test_a_probabilistic_interleaving_is_that_of_the_oracle(n_rankers: int, k: int, tau: float) -> None:
    rankings = RANKINGS[:n_rankers]
    shown, shares = draws(lambda key: ordering.probabilistic_interleaving(scores_of(rankings), MASK, key, k, tau))
    law = Counter[tuple[int, ...]]()
    for (order, _), p in oracle.probabilistic_interleavings(rankings, k, tau).items():
        law[order] += p  # type: ignore[assignment]
    drawn = lists(shown.order, k)
    must_follow(law, drawn)
    n_real = min(k, N)
    assert shown.log_propensity is None
    assert np.asarray(shown.free)[0].tolist() == [N - place for place in range(n_real)] + [0] * (k - n_real)
    for order, share in dict(zip(drawn, np.asarray(shares), strict=True)).items():
        np.testing.assert_allclose(share[:, :n_real].T, oracle.team_odds(rankings, order, tau), rtol=1e-4)
        assert not share[:, n_real:].any()
