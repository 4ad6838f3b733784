from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import scorers, small
from oracles import orders as oracle

from perturank import metrics
from perturank.core import CertainOrders, Query
from perturank.evaluation import LONGEST_ORDERED, N_ORDER_QUERIES, Exam, OrderExam
from perturank.orders import NO_DOCUMENT


@pytest.mark.parametrize("name", ["p2linrank", "pairrank", "olranknet", "p2neurrank", "p2headrank"])
def test_orders_are_the_rankers_own_on_each_query(name: str) -> None:
    exam, ranker = OrderExam.of(small.fold().test), small.learned(name)
    orders = exam.orders(ranker)
    assert orders.certain is not None
    for i in range(len(exam.grades)):
        query = jax.tree.map(lambda leaf, i=i: leaf[i], exam.queries)
        assert orders.scores[i] == pytest.approx(np.asarray(ranker.score(query)), abs=1e-5)
        assert np.mean(orders.certain[i] == np.asarray(ranker.certain(query))) > 0.99  # rounding may end a tie
    assert orders.certain_wrong == oracle.wrong_share(orders.certain.tolist(), exam.grades.tolist())


def test_a_ranker_that_knows_the_grades_is_never_wrong_and_its_opposite_always() -> None:
    exam = OrderExam.of(small.fold().test)  # feature 0 decides the grade
    for sign, share in ((1.0, 0.0), (-1.0, 1.0)):
        ranker = small.ranker("p2linrank")
        sure = eqx.tree_at(lambda r: r.theta, ranker, ranker.theta.at[0].set(sign))
        assert exam.orders(sure).certain_wrong == share


def test_only_rankers_with_certain_orders_have_them() -> None:
    exam = OrderExam.of(small.fold().test)
    for name in ("pdgd-linear", "random"):
        ranker = small.ranker(name)
        assert not isinstance(ranker, CertainOrders)
        assert exam.orders(ranker).certain_wrong is None


def test_long_lists_are_cut_and_short_ones_padded_to_one_shape() -> None:
    exam = OrderExam.of(small.easy(100, (3, 70), seed=1))
    assert exam.grades.shape == (N_ORDER_QUERIES, LONGEST_ORDERED)
    lengths = {int(n) for n in np.sum(exam.grades != NO_DOCUMENT, axis=1)}
    assert lengths == {3, LONGEST_ORDERED}
    assert np.array_equal(np.asarray(exam.queries.mask), exam.grades != NO_DOCUMENT)


def test_a_scorer_of_whole_lists_is_evaluated_query_by_query() -> None:
    data = small.easy(30, (1, 3, 17, 40), seed=4)
    ranker = small.ranker("pdgd-neural", scorer=scorers.ATTENTION)
    assert not ranker.is_row_wise
    expected = np.concatenate(
        [scorers.attention_scores(ranker.theta, np.asarray(data.query(i)[0])) for i in range(data.n_queries)]
    )
    exam = Exam.of(data, 0)
    np.testing.assert_allclose(exam.scores(ranker), expected, rtol=1e-4, atol=1e-5)
    assert exam.ndcg(ranker, 4) == pytest.approx(metrics.mean_ndcg(expected, data.labels, data.offsets, k=4), abs=1e-6)


def test_a_ranker_that_does_not_say_it_is_row_wise_is_given_one_query_at_a_time() -> None:
    class Centred(eqx.Module):
        def score(self, query: Query) -> Any:
            n = jnp.sum(query.mask)
            return query.features[:, 0] - jnp.sum(jnp.where(query.mask, query.features[:, 0], 0.0)) / n

    data, ranker = small.easy(9, (3, 20), seed=4), Centred()
    first = [np.asarray(data.query(i)[0])[:, 0] for i in range(9)]
    expected = np.concatenate([x - x.mean() for x in first])
    np.testing.assert_allclose(Exam.of(data, 0).scores(ranker), expected, atol=1e-6)  # type: ignore[arg-type]


def test_a_ranker_that_scores_all_alike_reaches_a_random_rankers_ndcg_in_the_mean() -> None:
    ranker = small.ranker("p2linrank")  # ties are broken by the seed
    exams = [Exam.of(small.fold().test, seed) for seed in range(300)]
    found = [exam.ndcg(ranker, 4) for exam in exams]
    error = np.std(found) / np.sqrt(len(found))
    assert exams[0].random_ndcg(4) == pytest.approx(float(np.mean(found)), abs=4 * error)
