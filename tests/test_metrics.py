from __future__ import annotations

from math import log2

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import metrics as oracle

from perturank import metrics
from perturank.errors import BadInput

GRADES = st.lists(st.integers(0, 4), min_size=1, max_size=12)


def seen(grades: list[int]) -> tuple[jax.Array, jax.Array]:
    """Return grades with masked places of the top grade after them: one shape, compiled once."""
    n, k = len(grades), 14
    return jnp.array(grades + [4] * (k - n)), jnp.arange(k) < n


def test_dcg_is_gain_over_discount() -> None:
    expected = 3 / log2(2) + 0 / log2(3) + 1 / log2(4)
    assert float(metrics.dcg(*seen([2, 0, 1]))) == pytest.approx(expected)


@settings(max_examples=30, deadline=None)
@given(GRADES)
def test_dcg_agrees_with_the_oracle(grades: list[int]) -> None:
    assert float(metrics.dcg(*seen(grades))) == pytest.approx(oracle.dcg(grades), rel=1e-6)


def test_ndcg_of_the_ideal_list_is_one_and_of_the_reverse_is_the_formula() -> None:
    (ideal,) = metrics.ideal_dcgs([0, 1, 2, 4, 3], [0, 5], 3)
    assert float(metrics.ndcg(jnp.array([4, 3, 2]), jnp.ones(3, bool), ideal)) == pytest.approx(1, abs=1e-6)
    worst = float(metrics.ndcg(jnp.array([0, 1, 2]), jnp.ones(3, bool), ideal))
    assert worst == pytest.approx(oracle.ndcg([0, 1, 2], [0, 1, 2, 4, 3]), rel=1e-6)


def test_a_query_without_a_relevant_document_counts_zero_online() -> None:
    assert float(metrics.ndcg(jnp.zeros(3, int), jnp.ones(3, bool), jnp.float32(0))) == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 1)), min_size=6, max_size=6), st.permutations(range(6)))
def test_shown_list_and_the_rest_by_score_with_ties_counted_half(
    documents: list[tuple[int, int]], shuffled: list[int]
) -> None:
    grades, scores = [grade for grade, _ in documents], [float(score) for _, score in documents]
    order = shuffled[:2]
    found = jax.jit(metrics.misordered_shown)(
        jnp.array([*order, 0]),
        jnp.array([True, True, False]),
        *(jnp.array(column) for column in (grades + [3] * 3, scores + [0.0] * 3)),
        jnp.arange(9) < 6,
    )
    assert float(found) == pytest.approx(oracle.misordered_shown(order, grades, scores))


@pytest.mark.parametrize("n", [16, 100, 256])
def test_pairs_are_counted_right_on_long_lists(n: int) -> None:
    rng = np.random.default_rng(n)
    grades, scores, mask = rng.integers(0, 5, n), rng.normal(size=n), rng.random(n) < 0.8
    shown = rng.permutation(np.flatnonzero(mask))[:10]
    rest = [d for d in np.argsort(-scores) if mask[d] and d not in shown]
    full = grades[[*shown, *rest]]
    found = metrics.misordered_shown(
        jnp.asarray(shown), jnp.ones(10, bool), jnp.asarray(grades), jnp.asarray(scores), jnp.asarray(mask)
    )
    assert float(found) == oracle.misordered(full.tolist())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=7), min_size=1, max_size=5), st.integers(1, 8))
def test_ideal_dcgs_and_query_ndcgs_agree_with_the_oracle(queries: list[list[int]], k: int) -> None:
    labels = [grade for query in queries for grade in query]
    offsets = np.cumsum([0, *map(len, queries)])
    scores = np.random.default_rng(0).normal(size=len(labels))
    ideals = [oracle.dcg(sorted(query, reverse=True)[:k]) for query in queries]
    np.testing.assert_allclose(metrics.ideal_dcgs(np.array(labels, int), offsets, k), ideals)
    found = metrics.query_ndcgs(scores, np.array(labels, int), offsets, k, empty="zero")
    for query, start, value in zip(queries, offsets, found, strict=False):
        order = np.argsort(-scores[start : start + len(query)])[:k]
        assert value == pytest.approx(oracle.ndcg([query[d] for d in order], query))


def test_queries_with_nothing_relevant_are_dropped_or_counted() -> None:
    scores, labels, offsets = [2.0, 1.0, 0.0, 5.0], [0, 1, 0, 0], [0, 3, 4]
    one = 1 / log2(3)
    assert metrics.mean_ndcg(scores, labels, offsets) == pytest.approx(one)
    assert metrics.mean_ndcg(scores, labels, offsets, empty="zero") == pytest.approx(one / 2)
    assert metrics.mean_ndcg(scores, labels, offsets, empty="one") == pytest.approx((one + 1) / 2)


def test_ties_are_broken_at_random_and_reproducibly() -> None:
    labels, offsets = [1, 0], [0, 2]
    values = [metrics.mean_ndcg([0.0, 0.0], labels, offsets, seed=seed) for seed in range(400)]
    assert values == [metrics.mean_ndcg([0.0, 0.0], labels, offsets, seed=seed) for seed in range(400)]
    assert np.mean(values) == pytest.approx((1 + 1 / log2(3)) / 2, abs=0.03)


def test_a_score_that_is_not_a_number_counts_as_the_lowest() -> None:
    assert metrics.mean_ndcg([np.nan, -1e9], [1, 0], [0, 2]) == pytest.approx(1 / log2(3))
    order, one = jnp.array([0]), jnp.ones(1, bool)
    scores, grades = jnp.array([0.0, jnp.nan, -1.0]), jnp.array([2, 1, 0])
    assert float(metrics.misordered_shown(order, one, grades, scores, jnp.ones(3, bool))) == 1


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(0, 60))
def test_chunks_of_rounds_add_up_to_the_same_bits(values: list[float], cut: int) -> None:
    whole = metrics.cumulative_ndcg(values)
    first = metrics.cumulative_ndcg(values[:cut])
    carry = first[-1] if first.size else 0.0
    second = metrics.cumulative_ndcg(values[cut:], start=min(cut, len(values)), carry=carry)
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    assert whole[-1] == pytest.approx(oracle.cumulative_ndcg(values, 0.9995))


def test_wrong_inputs_are_refused_in_one_line() -> None:
    with pytest.raises(BadInput, match="no query has a relevant document"):
        metrics.mean_ndcg([1.0], [0], [0, 1])
    with pytest.raises(BadInput, match="scores have shape"):
        metrics.mean_ndcg([1.0, 2.0], [0], [0, 1])
    with pytest.raises(BadInput, match="offsets end at 2"):
        metrics.ideal_dcgs([0], [0, 2], 10)
    with pytest.raises(BadInput, match="empty is"):
        metrics.mean_ndcg([1.0], [1], [0, 1], empty="keep")  # type: ignore[arg-type]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(1, 8))
def test_a_random_rankers_ndcg_is_the_mean_over_every_order(grades: list[int], k: int) -> None:
    if not any(grades):
        grades = [*grades[1:], 1]
    found = metrics.random_ndcg(grades, [0, len(grades)], k=k)
    assert found == pytest.approx(oracle.random_ndcg(grades, k))


def test_a_random_rankers_ndcg_drops_queries_without_a_relevant_document() -> None:
    labels, offsets = [1, 0, 0, 0, 0, 2, 1], [0, 2, 5, 7]
    both = [oracle.random_ndcg([1, 0], 10), oracle.random_ndcg([2, 1], 10)]
    assert metrics.random_ndcg(labels, offsets) == pytest.approx(sum(both) / 2)
    with pytest.raises(BadInput, match="no query has a relevant document"):
        metrics.random_ndcg([0, 0], [0, 2])


def test_rankings_by_random_scores_reach_it_in_the_mean() -> None:
    rng = np.random.default_rng(5)
    labels, offsets = rng.integers(0, 3, 60), np.array([0, 10, 25, 60])
    drawn = [metrics.mean_ndcg(rng.random(60), labels, offsets) for _ in range(2000)]
    error = np.std(drawn) / np.sqrt(len(drawn))
    assert metrics.random_ndcg(labels, offsets) == pytest.approx(float(np.mean(drawn)), abs=4 * error)
