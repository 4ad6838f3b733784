from __future__ import annotations

import numpy as np
import pytest
from oracles import orders as oracle

from perturank.orders import NO_DOCUMENT, Orders, wrong_share


def drawn(seed: int = 0) -> Orders:
    """Return random orders of three queries of eight, five and one documents."""
    rng = np.random.default_rng(seed)
    grades = rng.integers(0, 3, (3, 8))
    for query, n in enumerate((8, 5, 1)):
        grades[query, n:] = NO_DOCUMENT
    real = grades != NO_DOCUMENT
    scores = rng.normal(size=(3, 8))
    certain = (scores[:, :, None] > scores[:, None, :] + 0.5) & real[:, :, None] & real[:, None, :]
    return Orders.of(grades, scores, certain)


@pytest.mark.parametrize("seed", range(5))
def test_the_share_of_wrong_orders_agrees_with_the_oracle(seed: int) -> None:
    orders = drawn(seed)
    assert orders.certain is not None
    assert orders.certain_wrong == oracle.wrong_share(orders.certain.tolist(), orders.grades.tolist())


def test_pairs_of_equal_grades_and_padding_do_not_count() -> None:
    every = np.triu(np.ones((1, 8, 8), bool), 1)
    assert wrong_share(every, np.full((1, 8), 2)) is None
    grades = np.array([[1, 2, *[NO_DOCUMENT] * 6]])
    every[:, :, 2:] = False
    assert Orders.of(grades, np.zeros((1, 8)), every).certain_wrong == 1.0


def test_the_share_of_uncertain_pairs_is_of_real_documents() -> None:
    orders = drawn()
    assert orders.n_pairs == 8 * 7 / 2 + 5 * 4 / 2
    assert orders.certain is not None
    assert orders.uncertain == 1 - orders.certain.sum() / orders.n_pairs


def test_a_ranker_without_certain_orders_is_neither_certain_nor_wrong() -> None:
    orders = Orders.of(np.zeros((1, 8)), np.zeros((1, 8)), None)
    assert orders.certain is None
    assert orders.certain_wrong is None
    assert np.isnan(orders.uncertain)


def test_orders_survive_as_arrays() -> None:
    for orders in (drawn(), Orders.of(np.zeros((1, 8)), np.zeros((1, 8)), None)):
        back = Orders.from_arrays(orders.arrays)
        assert np.array_equal(back.scores, orders.scores)
        assert np.array_equal(back.grades, orders.grades)
        assert (back.certain is None) == (orders.certain is None)
        assert back.certain_wrong == orders.certain_wrong
