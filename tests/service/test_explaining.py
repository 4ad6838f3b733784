from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perturank.service.explaining import drawn, graph
from perturank.service.listing import Listed


def certain(pairs: list[tuple[int, int]], n: int) -> np.ndarray:
    found = np.zeros((n, n), bool)
    for before, after in pairs:
        found[before, after] = True
    return found


def test_a_document_is_one_layer_below_all_that_certainly_precede_it() -> None:
    nodes = graph(["a", "b", "c", "d"], certain([(0, 2), (0, 3), (1, 3), (2, 3)], 4))
    assert [node["layer"] for node in nodes] == [0, 0, 1, 2]


def test_only_direct_orders_are_drawn() -> None:
    nodes = graph(["a", "b", "c"], certain([(0, 1), (1, 2), (0, 2)], 3))
    assert [node["after"] for node in nodes] == [[], [0], [1]]


def test_the_graph_of_many_documents_ends_somewhere() -> None:
    assert len(graph([str(i) for i in range(1000)], np.zeros((1000, 1000), bool))) == 60


def test_draws_are_counted_by_document_and_place() -> None:
    orders: Iterator[list[int]] = iter([[2, 0], [2, 1], [0, 2], [2, 0]])
    found = drawn(lambda: Listed(next(orders), [], None, [], [], None), ["a", "b", "c"], 4)
    assert found == {
        "lists": 4,
        "different": 3,
        "documents": [
            {"id": "c", "places": [3, 1]},
            {"id": "a", "places": [1, 2]},
            {"id": "b", "places": [0, 1]},
        ],
    }
