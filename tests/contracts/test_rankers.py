"""What every ranker of the catalogue promises, whatever its algorithm."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small

from perturank import metrics, storage
from perturank.catalogue import rankers
from perturank.core import (
    CertainOrders,
    Ensemble,
    Interaction,
    OffPolicy,
    Query,
    Ranker,
    Ranking,
    Remembers,
    check_room,
)
from perturank.errors import BadInput

K = small.PLACES
KEYS = jax.random.split(jax.random.key(21), 8)

# Those with a history are compiled as they are shipped by tests of their own.
AS_SHIPPED = [name for name in small.one_of_each_kind() if name not in small.able(Remembers)]
LEARNING = [
    pytest.param(name, marks=pytest.mark.as_shipped if name in AS_SHIPPED else ())
    for name, entry in rankers().items()
    if entry.settings.as_dict()  # where there is nothing to set there is nothing to learn
]

every_ranker = pytest.mark.parametrize("name", rankers())


@dataclass(frozen=True)
class Case:
    """A ranker before and after two lists were clicked."""

    fresh: Any
    interactions: tuple[Interaction, ...]
    learned: Any


@cache
def case(name: str) -> Case:
    ranker = fresh = small.ranker(name)
    interactions = []
    for t in range(2):
        query = small.query(9, seed=t)
        ranking = ranker.rank(query, KEYS[t], K)
        interactions.append(Interaction.of(query, ranking, ranking.documents[1:3]))
        ranker = ranker.learn(interactions[-1], KEYS[t])
    return Case(fresh, tuple(interactions), ranker)


def must_be_a_list(ranking: Ranking, n: int) -> None:
    """Check that the list holds different real documents, and padding only when they have run out."""
    order, shown = np.asarray(ranking.order), ranking.documents
    assert int(ranking.n) == len(shown) == min(n, len(order))
    assert len(set(order.tolist())) == len(order)
    assert (shown < n).all()
    assert (order[len(shown) :] >= n).all()
    free = np.asarray(ranking.free)
    assert (free[: len(shown)] >= 1).all()
    assert (free[: len(shown)] <= n - np.arange(len(shown))).all()
    assert (free[len(shown) :] == 0).all()
    if ranking.log_propensity is not None:
        assert -np.inf < float(ranking.log_propensity) <= 1e-6


@every_ranker
def test_it_is_a_ranker_with_settings_that_json_can_hold(name: str) -> None:
    ranker = case(name).fresh
    assert isinstance(ranker, Ranker)
    assert ranker.n_features == small.N_FEATURES
    assert ranker.settings.changed(**json.loads(json.dumps(ranker.settings.as_dict()))) == ranker.settings
    own = rankers()[name].settings
    assert own.changed(**json.loads(json.dumps(own.as_dict(), allow_nan=False))) == own


@every_ranker
@pytest.mark.parametrize("n", [1, 2, 4, 9, 16])
def test_it_shows_a_permutation_of_the_documents(name: str, n: int) -> None:
    query = small.query(n, seed=n)
    for ranker in (case(name).fresh, case(name).learned):
        for key in KEYS[:3]:
            must_be_a_list(ranker.rank(query, key, K), n)
        assert ranker.score(query).shape == (16,)


@every_ranker
def test_it_ranks_and_learns_with_the_same_bits_from_the_same_key(name: str) -> None:
    ranker, query = case(name).learned, small.query(9, seed=5)
    one, other = (ranker.rank(query, KEYS[3], K) for _ in range(2))
    assert small.same_bits(one, other)
    again, interaction = case(name).fresh, case(name).interactions[0]
    assert small.same_bits(again.learn(interaction, KEYS[0]), again.learn(interaction, KEYS[0]))


@every_ranker
def test_learning_leaves_the_old_ranker_alone(name: str) -> None:
    ranker, interaction = case(name).learned, case(name).interactions[0]
    before = small.arrays(ranker)
    later = ranker.learn(interaction, KEYS[4])
    for old, now in zip(before, small.arrays(ranker), strict=True):
        assert old.tobytes() == now.tobytes()
    assert type(later) is type(ranker)


@every_ranker
def test_feedback_may_be_late_repeated_or_empty(name: str) -> None:
    start, first = case(name).fresh, case(name).interactions[0]
    silent = Interaction(first.shown, jnp.zeros_like(first.clicks), first.memo)
    full = Interaction(first.shown, jnp.ones_like(first.clicks), first.memo)
    ranker = case(name).learned.learn(first, KEYS[5])  # clicks on a list that an older version showed
    for interaction in (first, silent, full, first):
        ranker = ranker.learn(interaction, KEYS[5])
    assert small.is_finite(ranker)
    must_be_a_list(ranker.rank(small.query(9), KEYS[5], K), 9)
    assert small.is_finite(start.learn(silent, KEYS[5]))


@every_ranker
@pytest.mark.parametrize("n", [1, 2])
def test_it_learns_from_lists_shorter_than_the_places(name: str, n: int) -> None:
    ranker, query = case(name).learned, small.query(n, seed=3)
    for clicked in ([], [0], list(range(n))):
        ranking = ranker.rank(query, KEYS[6], K)
        ranker = ranker.learn(Interaction.of(query, ranking, clicked), KEYS[6])
        assert small.is_finite(ranker)
    must_be_a_list(ranker.rank(query, KEYS[6], K), n)


@pytest.mark.parametrize("name", small.one_of_each_kind())
def test_a_list_may_have_one_place(name: str) -> None:
    ranker, query = case(name).learned, small.query(9)
    ranking = ranker.rank(query, KEYS[7], 1)
    must_be_a_list(ranking, 9)
    assert small.is_finite(ranker.learn(Interaction.of(query, ranking, ranking.documents), KEYS[7]))


@every_ranker
def test_a_prior_is_part_of_the_score(name: str) -> None:
    prior = np.linspace(3, -3, 9)
    with_prior, without = small.query(9, prior=prior), small.query(9)
    for ranker in (case(name).fresh, case(name).learned):
        difference = np.asarray(ranker.score(with_prior)) - np.asarray(ranker.score(without))
        np.testing.assert_allclose(difference[:9], prior, atol=1e-5)
    assert small.is_finite(case(name).learned.learn(case(name).interactions[0], KEYS[0]))


@pytest.mark.as_shipped
@pytest.mark.parametrize("name", small.able(Ensemble))
def test_a_prior_alone_decides_the_first_list(name: str) -> None:
    prior = np.array([0.0, 3.0, 1.0, 2.0, -1.0, 0.5, 4.0, -2.0, 0.25])
    fresh = small.ranker(name)
    for key in KEYS:
        ranking = fresh.rank(small.query(9, prior=prior), key, K)
        assert ranking.documents.tolist() == np.argsort(-prior)[:K].tolist()
        assert np.asarray(ranking.free).tolist() == [1] * K
        assert float(ranking.log_propensity) == 0


@every_ranker
def test_a_saved_ranker_goes_on_with_the_same_bits(name: str, tmp_path: Path) -> None:
    ranker, interaction = case(name).learned, case(name).interactions[1]
    storage.save(ranker, tmp_path / "ranker")
    loaded: Any = storage.load(tmp_path / "ranker")
    assert loaded.settings == ranker.settings
    assert small.same_bits(loaded, ranker)
    query = small.query(9, seed=8)
    assert small.same_bits(loaded.rank(query, KEYS[0], K), ranker.rank(query, KEYS[0], K))
    assert small.same_bits(loaded.learn(interaction, KEYS[1]), ranker.learn(interaction, KEYS[1]))


@pytest.mark.parametrize("name", small.able(Remembers))
def test_room_changes_nothing_but_the_room(name: str) -> None:
    ranker = case(name).learned
    roomy = ranker.with_room(200, K)
    assert small.same_bits(roomy.with_room(1, K), roomy)
    for now, before in zip(small.arrays(roomy), small.arrays(ranker), strict=True):
        if before.shape == now.shape:
            assert now.tobytes() == before.tobytes()
        elif now.dtype != np.int32:  # all but the cells of hash tables begin like the old ones
            np.testing.assert_array_equal(now[: len(before)], before)
            assert not now[len(before) :].any()


@pytest.mark.parametrize("name", [name for name in small.one_of_each_kind() if name in small.able(Remembers)])
def test_a_compiled_program_that_learns_past_its_room_is_found_out(name: str) -> None:
    rows = jnp.asarray(small.rows(600).reshape(150, K, -1))
    arrays, static = eqx.partition(case(name).fresh, eqx.is_array)

    @jax.jit
    def learned(arrays: Any, n: Any) -> Any:
        def one(i: Any, arrays: Any) -> Any:
            numbers = (K * i + jnp.arange(K)).astype(jnp.uint32)
            shown = Query(rows[i], jnp.ones(K, bool), jnp.stack([numbers, numbers], axis=1), jnp.zeros(K))
            seen = Interaction(shown, jnp.arange(K) == 1, None)
            return eqx.filter(eqx.combine(arrays, static).learn(seen, KEYS[0]), eqx.is_array)

        return jax.lax.fori_loop(0, n, one, arrays)

    check_room(eqx.combine(learned(arrays, 10), static))
    with pytest.raises(BadInput, match="more than the ranker had room for"):
        check_room(eqx.combine(learned(arrays, 150), static))


@pytest.mark.parametrize("name", small.able(Remembers))
def test_what_only_learning_needs_is_never_read_by_serving(name: str) -> None:
    learned, fresh = case(name).learned, case(name).fresh
    served = dataclasses.replace(learned, **{field: getattr(fresh, field) for field in learned.learning_only})
    query = small.query(9, seed=8)
    assert not small.same_bits(served, learned)
    assert small.same_bits(served.score(query), learned.score(query))
    assert small.same_bits(served.rank(query, KEYS[0], K), learned.rank(query, KEYS[0], K))


def test_a_list_is_never_longer_than_the_padded_query() -> None:
    must_be_a_list(case("pdgd-linear").learned.rank(small.query(9), KEYS[7], 20), 9)


@pytest.mark.parametrize("name", small.able(CertainOrders))
def test_certain_orders_contradict_neither_one_another_nor_the_lists(name: str) -> None:
    query = small.query(9)
    for ranker in (case(name).fresh, case(name).learned):
        certain, precedes = (np.asarray(eqx.filter_jit(each)(query)) for each in (ranker.certain, ranker.precedes))
        assert not (certain & certain.T).any()
        assert not certain[9:].any()
        assert not certain[:, 9:].any()
        assert float(ranker.uncertain(query)) == pytest.approx(1 - certain.sum() / (9 * 8 / 2), abs=1e-6)
        for key in KEYS[:3]:
            shown = ranker.rank(query, key, 9).documents
            assert not np.tril(precedes[np.ix_(shown, shown)]).any()


@pytest.mark.parametrize("name", small.able(Ensemble))
def test_the_score_is_the_mean_of_an_ensembles(name: str) -> None:
    ranker, query = case(name).learned, small.query(9)
    np.testing.assert_allclose(np.mean(ranker.scores(query), axis=1)[:9], ranker.score(query)[:9], atol=1e-5)


@pytest.mark.parametrize("name", small.able(OffPolicy))
def test_a_list_that_another_ranker_showed_can_be_learned_from(name: str) -> None:
    ranker, seen = case(name).fresh, case(name).interactions[1]
    memo = ranker.memo_of(seen.shown)
    assert jax.tree.map(jnp.shape, memo) == jax.tree.map(jnp.shape, seen.memo)
    after = ranker.learn(Interaction(seen.shown, seen.clicks, memo), KEYS[0])
    assert small.is_finite(after)
    assert not small.same_bits(after, ranker)


EASY = small.easy(8, (9,), seed=3)


@cache
def lessons() -> list[tuple[Query, Any, Any]]:
    """Return the queries of 150 rounds with their grades and three keys each, made once for all rankers."""
    queries = [(Query.of(x), jnp.asarray(np.pad(y, (0, 7)))) for x, y in map(EASY.query, range(8))]
    keys = jax.random.key_data(jax.random.split(jax.random.key(2), (150, 3)))
    return [(*queries[t % 8], [jax.random.wrap_key_data(key) for key in np.asarray(keys)[t]]) for t in range(150)]


@eqx.filter_jit
def answered(query: Query, order: Any, grades: Any, key: Any) -> tuple[Query, Any]:
    """Return what was shown, and a perfect user's clicks on it."""
    shown = query.take(order)
    return shown, small.PERFECT.click(grades[order], shown.mask, key)


@pytest.mark.parametrize("name", LEARNING)
def test_it_learns_an_easy_problem_from_perfect_users(name: str) -> None:
    ranker = small.ranker(name)
    for query, grades, keys in lessons():
        ranking = ranker.rank(query, keys[0], K)
        shown, clicks = answered(query, ranking.order, grades, keys[1])
        ranker = ranker.learn(Interaction(shown, clicks, ranking.memo), keys[2])
    scores = np.concatenate([np.asarray(ranker.score(query))[:9] for query, _, _ in lessons()[:8]])
    ndcg = metrics.mean_ndcg(scores, EASY.labels, EASY.offsets, k=K)
    random = np.mean([metrics.mean_ndcg(0 * scores, EASY.labels, EASY.offsets, k=K, seed=seed) for seed in range(20)])
    assert ndcg > random + 0.3 * (1 - random)
