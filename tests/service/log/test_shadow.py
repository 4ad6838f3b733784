"""Shadow mode, counted event by event, says what its definition says of the log; the truth lies where it says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from helpers.service_small import IDS, created, impression, shown
from hypothesis import given
from hypothesis import strategies as st
from oracles import shadow as oracle

from benchmarks.shadow import VISITORS, told, truth
from perturank.service.log import Log, counters, shadow
from perturank.service.log.counters import TOTAL, Amounts, merge
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import Impression

ACTIONS = {"click": 1.0, "buy": 10.0, "dismiss": -2.0}
STRANGERS = ["x", "y"]
Parts = list[list[tuple[str, str]]]


def entry(ids: Sequence[str], ours: Sequence[str]) -> Impression:
    return impression(mode="shadow", ids=list(ids), ours=list(ours), own_agreed=b"")


@st.composite
def lists(draw: st.DrawFn) -> list[tuple[list[str], list[str], Parts]]:
    """Return lists of the caller and of the ranker, with events that come in parts."""
    event = st.tuples(st.sampled_from(IDS), st.sampled_from(list(ACTIONS)))
    return [
        (
            draw(st.permutations(IDS)),
            draw(st.permutations(IDS + STRANGERS))[:4],
            draw(st.lists(st.lists(event, unique=True), max_size=3)),
        )
        for _ in range(draw(st.integers(1, 8)))
    ]


@given(lists())
def test_amounts_kept_event_by_event_say_what_the_whole_log_says(log: list[tuple[list[str], list[str], Parts]]) -> None:
    amounts: Amounts = {}
    whole = []
    for own, ours, parts in log:
        each, before = entry(own, ours), set[tuple[str, str]]()
        merge(amounts, shadow.list_amounts(each))
        for part in parts:
            merge(amounts, shadow.event_amounts(each, before, before | set(part), ACTIONS))
            before |= set(part)
        whole.append((own, ours, {document for document, action in before if action != "dismiss"}))
    told = shadow.summary(amounts)
    assert told is not None
    assert told["lists"] == len(log)
    assert told["overlap"] == pytest.approx(np.mean([len(set(own) & set(ours)) / 4 for own, ours, _ in whole]))
    alike = [oracle.rank_biased_overlap(own, ours) for own, ours, _ in whole]
    assert told["agreement"] == pytest.approx(np.mean(alike), rel=1e-4, abs=1e-6)
    assert (told["least"], told["most"]) == pytest.approx(oracle.bounds(whole), rel=1e-4, abs=1e-6)
    assert told["low"] <= told["least"] <= told["most"] <= told["high"]


@pytest.mark.parametrize("visitor", VISITORS)
@pytest.mark.parametrize("case", ["far better", "alike", "noise"])
def test_the_true_gain_lies_where_shadow_mode_says_at_every_look(case: str, visitor: str) -> None:
    rng = np.random.default_rng(5)
    gain = truth(case, visitor, 20, rng, n=10_000).gain
    for each in told(case, visitor, 1000, 20, rng, looks=10):
        assert each["low"] < gain < each["high"]
        assert {"better": gain > 0, "worse": gain < 0, "open": True}[each["verdict"]]
    if case == "far better" and visitor in ("cascade", "perfect"):
        assert each["verdict"] == "better"


def test_it_is_counted_with_the_list_and_its_events_and_told_since_the_first_list(log: Log) -> None:
    created(log)
    each = entry(IDS, ["d", "x", "a", "b"])
    name = shown(log, each)
    with log.transaction() as transaction:
        transaction.counters.add("m", counters.list_amounts(each, [True] * 4))
    for part in (["d"], ["d", "b"], ["d"]):
        with log.transaction() as transaction:
            record_feedback(transaction, "m", name, part, False)
    (row,) = log.counters((TOTAL,), model="m")
    told = counters.summary(row.amounts)["shadow"]
    assert {key: told[key] for key in ("lists", "overlap", "least", "most")} == {
        "lists": 1,
        "overlap": 0.75,
        "least": 1 / 1 - 1 / 2,  # d would stand first, and the first click was at b
        "most": 1 / 1 - 1 / 2,
    }
    minutes = log.counters((60,), model="m")
    (*_, last) = shadow.standings([each.amounts for each in minutes], row.amounts)
    assert last == told


def test_periods_are_told_with_all_that_came_before_them() -> None:
    first = shadow.list_amounts(entry(IDS, IDS))
    second = shadow.list_amounts(entry(IDS, STRANGERS))
    total: Amounts = {}
    for each in (first, first, second):
        merge(total, each)
    found = list(shadow.standings([first, second], total))
    assert [each and (each["lists"], each["overlap"]) for each in found] == [
        (2, 1.0),
        (3, pytest.approx(2 / 3, rel=1e-5)),
    ]
    assert list(shadow.standings([], {})) == []


@pytest.mark.parametrize("changes", [{"mode": "learn"}, {"earlier": [b"first"]}, {"ours": None}], ids=str)
def test_other_modes_and_later_pages_are_not_counted(changes: dict[str, object]) -> None:
    each = impression(**{"mode": "shadow", "ours": IDS} | changes)  # type: ignore[arg-type]
    assert shadow.list_amounts(each) == shadow.event_amounts(each, [], [("a", "click")], ACTIONS) == {}
    assert shadow.summary(shadow.list_amounts(each)) is None
