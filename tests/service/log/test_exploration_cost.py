"""Probabilities of lists; and the cost of exploration, kept click by click, is what its definition says of the log."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from helpers.service_small import impression
from hypothesis import given
from hypothesis import strategies as st
from oracles import exploration as oracle

from perturank.service.log import exploration_cost
from perturank.service.log.counters import Amounts, merge
from perturank.service.log.records import Impression, log_probability, probability
from perturank.service.serving.sampling import agreement

DOCUMENTS = ["a", "b", "c", "d"]


def logged(each: oracle.Impression, share: float) -> Impression:
    rows = [DOCUMENTS.index(document) for document in each.shown]
    best = [DOCUMENTS.index(document) for document in each.best]
    return impression(ids=each.shown, agreed=agreement(np.log(each.p).tolist(), rows, best, share))


@st.composite
def impressions(draw: st.DrawFn) -> list[tuple[oracle.Impression, list[list[str]]]]:
    """Return lists with clicks that come in parts."""
    found = []
    for _ in range(draw(st.integers(1, 12))):
        shown, best = draw(st.permutations(DOCUMENTS)), draw(st.permutations(DOCUMENTS))
        p = draw(st.lists(st.floats(0.05, 1.0), min_size=4, max_size=4))
        parts = draw(st.lists(st.lists(st.sampled_from(DOCUMENTS), unique=True), max_size=3))
        clicks = {document for part in parts for document in part}
        # half of the time the lists agree a good way, which chance alone would seldom bring about
        agree = draw(st.integers(0, 4))
        best = shown[:agree] + [each for each in best if each not in shown[:agree]]
        found.append((oracle.Impression(shown, best, p, clicks), parts))
    return found


@given(impressions(), st.sampled_from([1.0, 0.5, 0.1]))
def test_amounts_kept_click_by_click_say_what_the_whole_log_says(
    log: list[tuple[oracle.Impression, list[list[str]]]], share: float
) -> None:
    amounts: Amounts = {exploration_cost.LISTS: len(log)}
    for each, parts in log:
        entry, before = logged(each, share), set[str]()
        for part in parts:
            merge(amounts, exploration_cost.click_amounts(entry, before, before | set(part)))
            before |= set(part)
    found = exploration_cost.summary(amounts)
    assert found is not None
    best, shown, error = oracle.cost([each for each, _ in log], share)
    assert found["best"] == pytest.approx(best, rel=1e-5)
    assert found["shown"] == pytest.approx(shown)
    assert found["error"] == pytest.approx(error, rel=1e-3, abs=1e-6)
    assert found["cost"] == found["best"] - found["shown"]


def test_the_estimate_is_right_on_the_average_for_readers_who_go_down_the_list() -> None:
    """Every list with its probability, every place of the first click with its: the mean is exact."""
    attraction = {"a": 0.1, "b": 0.5, "c": 0.3, "d": 0.7}
    best = DOCUMENTS
    expected = {"best": 0.0, "shown": 0.0, "truth": 0.0}
    for shown in permutations(DOCUMENTS):
        p_places = [1 / left for left in (4, 3, 2, 1)]  # uniform: every document was free
        p_list = float(np.prod(p_places))
        passed = 1.0
        for place, document in enumerate(shown, start=1):
            p_click = passed * attraction[document]
            entry = logged(oracle.Impression(list(shown), best, p_places, set()), 1.0)
            of_shown, of_best = exploration_cost.worth(entry, {document})
            expected["shown"] += p_list * p_click * of_shown
            expected["best"] += p_list * p_click * of_best
            expected["truth"] += (list(shown) == best) * p_click / place
            passed *= 1 - attraction[document]
    assert expected["best"] == pytest.approx(expected["truth"], rel=1e-6)
    assert expected["shown"] != pytest.approx(expected["truth"], rel=1e-2)


def test_lists_without_probabilities_cost_nothing_that_is_known() -> None:
    assert exploration_cost.click_amounts(impression(), set(), {"a"}) == {}
    assert exploration_cost.summary({}) is None


def test_a_list_that_never_explores_costs_nothing() -> None:
    entry = impression(agreed=agreement([0.0] * 4, [0, 1, 2, 3], [0, 1, 2, 3], 1.0))
    assert [exploration_cost.worth(entry, clicks) for clicks in ({"a"}, {"d", "b"}, {"d"}, set())] == [
        (1, 1),
        (0.5, 0.5),
        (0.25, 0.25),
        (0, 0),
    ]


@pytest.mark.parametrize("free, p", [([2, 1], 0.5), ([4, 2, 1], 0.125), ([3, 2, 1], round(1 / 6, 7)), ([1, 1], 1.0)])
def test_equal_lots_have_exactly_their_probability(free: list[int], p: float) -> None:
    in_float32 = -np.log(np.array(free, np.float32))
    assert probability(log_probability(in_float32.tolist(), free)) == p


def test_half_is_a_half() -> None:
    assert math.exp(log_probability([float(np.float32(-0.6931472)), 0.0], [2, 1])) == 0.5


def test_other_probabilities_multiply() -> None:
    log_p = np.log(np.array([0.7, 0.25, 0.9], np.float32))
    assert math.exp(log_probability(log_p.tolist(), [4, 4, 2])) == pytest.approx(0.7 * 0.25 * 0.9, rel=1e-6)


def test_no_more_digits_are_said_than_are_known() -> None:
    assert probability(math.log(np.float32(0.1))) == 0.1
    assert probability(-1e9) == 0.0
