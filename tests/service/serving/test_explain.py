from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from helpers.service_small import PLACES, impression, rows, spec

from perturank.catalogue import rankers
from perturank.parts import scoring
from perturank.service.serving.explain import drawn, explained, explored, graph
from perturank.service.serving.sampling import ListProgram, SampledList, agreement, sample_list
from perturank.wire.specification import Exploration


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
    found = drawn(lambda: SampledList(next(orders), [], [], None, None, [], [], None), ["a", "b", "c"], 4)
    assert found == {
        "lists": 4,
        "different": 3,
        "documents": [
            {"id": "c", "places": [3, 1]},
            {"id": "a", "places": [1, 2]},
            {"id": "b", "places": [0, 1]},
        ],
    }


LIMITS = [
    Exploration(),
    Exploration(protected=1),
    Exploration(protected=2, displacement=2),
    Exploration(protected=1, displacement=1, share=0.5),
    Exploration(share=0.0),
]
RANKERS: list[tuple[str, dict[str, Any]]] = [
    ("p2linrank", {"floor": 0.0}),
    ("p2linrank", {"sort": "blocks", "floor": 0.0}),
    ("pairrank", {"alpha": 0.6}),
    ("pairrank", {"alpha": 0.3, "sort": "blocks"}),
]


def knowing(name: str, settings: dict[str, Any]) -> Any:
    """Return a ranker that is certain of some orders of the six documents below, and not of others."""
    ranker: Any = spec(name, settings=settings).start()
    theta = jax.random.normal(jax.random.key(11), ranker.theta.shape)
    return eqx.tree_at(lambda each: each.theta, ranker, theta)


SIX, IDS = rows(6, 5), list("abcdef")


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize(("name", "settings"), RANKERS, ids=str)
def test_who_is_free_is_who_is_drawn(name: str, settings: dict[str, Any], limits: Exploration) -> None:
    model = spec(name, settings=settings, exploration=limits, chance="seeded")
    ranker = knowing(name, settings)
    found = explained(ranker, IDS, SIX, None, limits, PLACES)["ranking"]
    seen, program = defaultdict[int, set[str]](set), ListProgram.of(ranker, model)
    for n in range(300):
        shown = sample_list(program, SIX, None, PLACES, draw=n)
        for place, row in enumerate(shown.order):  # as far as it agrees with the best estimate
            assert shown.free[place] == len(found[place]["free"])
            seen[place].add(IDS[row])
            if IDS[row] != found[place]["id"]:
                break
    for place, about in enumerate(found):
        assert seen[place] <= set(about["free"])
        assert seen[place] == set(about["free"]) or place > 1
        assert about["certain"] == (len(about["free"]) == 1)


@pytest.mark.parametrize(("name", "settings"), RANKERS, ids=str)
def test_without_limits_those_rankers_leave_some_places_to_chance(name: str, settings: dict[str, Any]) -> None:
    found = explained(knowing(name, settings), IDS, SIX, None, Exploration(), PLACES)["ranking"]
    assert {each["certain"] for each in found} == {True, False}


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Yield a list that grows with every program that is compiled meanwhile."""
    found: list[str] = []

    def note(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def small(name: str) -> dict[str, Any]:
    return {"widths": [4]} if "widths" in rankers()[name].settings.as_dict() else {}


# Beyond so many documents networks score by blocks.
MANY = 2 * scoring.BLOCK + 1
REPEATED: list[tuple[str, dict[str, Any], int]] = [
    *((name, small(name), 6) for name in rankers()),
    ("p2neurrank", {}, MANY),
    ("p2headrank", {}, MANY),
    ("p2linrank", {"sort": "blocks"}, 6),
    ("pairrank", {"sort": "blocks"}, 6),
]


def test_what_is_compiled_is_counted() -> None:
    with compilations() as found:
        jax.jit(lambda x: x + 1)(1)
    assert len(found) == 1


@pytest.mark.parametrize(("name", "settings", "n"), REPEATED, ids=str)
def test_what_was_explained_once_is_not_compiled_again(name: str, settings: dict[str, Any], n: int) -> None:
    ranker, ids = spec(name, settings=settings).start(), [str(row) for row in range(n + 1)]
    explained(ranker, ids[:n], rows(n), None, Exploration(), PLACES)
    with compilations() as then:
        explained(ranker, ids[:n], rows(n, 1), None, Exploration(), PLACES)
        explained(ranker, ids, rows(n + 1), None, Exploration(), PLACES)  # padded to the same length
    assert not then


def test_the_log_says_of_a_list_where_it_was_left_to_chance() -> None:
    half = float(np.log(0.5))
    cases = [
        ([0.0, half, 0.0, half], [0, 1, 2, 3], [0, 1, 2, 3], 1.0, [False, True, False, True]),
        ([0.0, half, half, 0.0], [0, 2, 1, 3], [0, 1, 2, 3], 1.0, [False, True, None, None]),
        ([0.0, half, 0.0, half], [0, 1, 2, 3], [0, 1, 2, 3], 0.5, [None, True, None, True]),
    ]
    for log_p, order, best, share, expected in cases:
        entry = impression(agreed=agreement(log_p, order, best, best, share))
        assert explored(entry, always=share == 1) == expected
    assert explored(impression(agreed=None), always=True) == [None] * 4
    assert explored(impression(mode="exploit"), always=True) == [False] * 4
    assert explored(impression(log_propensity=0.0), always=False) == [False] * 4
