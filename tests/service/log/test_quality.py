"""Quality, kept event by event, is what its definition says of the log; its estimates are right on the average."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers.service_small import IDS, impression, rows, spec
from hypothesis import given
from hypothesis import strategies as st
from oracles import quality as oracle

from perturank.service.log import quality
from perturank.service.log.counters import Amounts, merge
from perturank.service.log.records import Impression, log_probability, probability
from perturank.service.serving.sampling import ListProgram, agreement, sample_list
from perturank.wire.specification import Exploration

ACTIONS = {"click": 1.0, "buy": 10.0, "dismiss": -2.0}
ATTRACTION = {"a": 0.1, "b": 0.5, "c": 0.3, "d": 0.7}
OWN = ["b", "a", "d", "c"]
LIMITS = [
    {"share": 1.0, "protected": 0, "displacement": 9},
    {"share": 0.3, "protected": 0, "displacement": 9},
    {"share": 0.5, "protected": 1, "displacement": 2},
    {"share": 1.0, "protected": 0, "displacement": 1},
]


def logged(each: oracle.Impression, share: float) -> Impression:
    shown, best, own = ([IDS.index(document) for document in order] for order in (each.shown, each.best, each.own))
    log_p = np.log(each.p).tolist()
    return impression(
        ids=list(each.shown),
        agreed=agreement(log_p, shown, best, best, share),
        own_agreed=agreement(log_p, shown, own, best, share),
    )


@st.composite
def impressions(draw: st.DrawFn) -> list[tuple[oracle.Impression, list[list[tuple[str, str]]]]]:
    """Return lists with events that come in parts."""
    found = []
    for _ in range(draw(st.integers(1, 8))):
        shown = draw(st.permutations(IDS))
        p = draw(st.lists(st.floats(0.05, 1.0), min_size=4, max_size=4))
        event = st.tuples(st.sampled_from(IDS), st.sampled_from(list(ACTIONS)))
        parts = draw(st.lists(st.lists(event, unique=True), max_size=3))
        events = {one for part in parts for one in part if one[1] != "dismiss"}
        worths = {document: max(ACTIONS[action] for at, action in events if at == document) for document, _ in events}
        orders = []
        for _ in range(2):  # most of them agree a good way, which chance alone would seldom bring about
            agree, other = draw(st.integers(0, 4)), draw(st.permutations(IDS))
            orders.append(shown[:agree] + [each for each in other if each not in shown[:agree]])
        found.append((oracle.Impression(shown, orders[0], orders[1], p, worths), parts))
    return found


@given(impressions(), st.sampled_from([1.0, 0.5, 0.1]))
def test_amounts_kept_event_by_event_say_what_the_whole_log_says(
    log: list[tuple[oracle.Impression, list[list[tuple[str, str]]]]], share: float
) -> None:
    actions = ACTIONS | {"dismiss": 0.0}
    amounts: Amounts = {}
    for each, parts in log:
        entry, before = logged(each, share), set[tuple[str, str]]()
        merge(amounts, quality.list_amounts(entry))
        for part in parts:
            merge(amounts, quality.event_amounts(entry, before, before | set(part), actions))
            before |= set(part)
    found, whole, n = quality.summary(amounts), [each for each, _ in log], len(log)
    shown = np.array([oracle.reciprocal_rank(each) for each in whole])
    reward = np.array([sum(each.worths.values()) for each in whole])
    assert found["shown"] == found["learn"]
    check(found["shown"], shown, shown, reward, np.ones(n))
    for order in ("best", "own"):
        told = oracle.qualities(whole, order, share)
        check(found[order], told["least"], told["most"], told["reward"], told["coverage"])
    best = oracle.qualities(whole, "best", share)
    cost, spent = (best["least"] + best["most"]) / 2 - shown, quality.exploration(amounts)
    assert spent is not None
    assert spent["cost"] == pytest.approx(cost.mean(), rel=1e-4, abs=1e-5)
    assert spent["error"] == pytest.approx(cost.std() / math.sqrt(n), rel=1e-3, abs=1e-4)
    assert spent["best"] - spent["shown"] == pytest.approx(spent["cost"])


def check(
    found: dict[str, float], least: np.ndarray, most: np.ndarray, reward: np.ndarray, coverage: np.ndarray
) -> None:
    """Compare a summary with the values of each list."""
    rank, n = (least + most) / 2, len(least)
    expected = {"least": least, "most": most, "rank": rank, "reward": reward, "coverage": coverage}
    assert {name: found[name] for name in expected} == pytest.approx(
        {name: values.mean() for name, values in expected.items()}, rel=1e-4, abs=1e-5
    )
    assert found["rank_error"] == pytest.approx(rank.std() / math.sqrt(n), rel=1e-3, abs=1e-3)
    assert found["reward_error"] == pytest.approx(reward.std() / math.sqrt(n), rel=1e-3, abs=1e-2)
    assert found["lists"] == n


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("own", [IDS, OWN], ids=["own is best", "own is another"])
def test_the_estimates_are_right_on_the_average_for_readers_who_go_down_the_list(
    own: list[str], limits: dict[str, float]
) -> None:
    """Every list with its probability, every reader with theirs: the expectation is exact."""
    expected = {order: dict.fromkeys(("least", "most", "reward", "coverage"), 0.0) for order in ("best", "own")}
    lists = list(oracle.every_list(IDS, 4, **limits))  # type: ignore[arg-type]
    for shown, p, p_list in lists:
        for worths, p_reader in oracle.every_reader(shown, ATTRACTION):
            entry = logged(oracle.Impression(shown, IDS, own, np.maximum(p, 1e-9).tolist(), worths), limits["share"])
            assert entry.agreed is not None
            assert entry.own_agreed is not None
            place = quality.first_click(entry, [(each, "click") for each in worths], ACTIONS)
            for order, agreed in (("best", entry.agreed), ("own", entry.own_agreed)):
                found = quality.quality(quality.weights(agreed), place, [worths.get(each, 0.0) for each in shown])
                for name, value in found._asdict().items():
                    expected[order][name] += p_list * p_reader * value
    can_be_shown = any(shown == own for shown, _, _ in lists)
    for order, documents in (("best", IDS), ("own", own)):
        found_of = expected[order]
        rank, reward = truth(documents)
        if order == "best" or can_be_shown:
            assert found_of == pytest.approx({"least": rank, "most": rank, "reward": reward, "coverage": 1}, rel=1e-5)
        else:
            assert found_of["least"] < rank < found_of["most"]
            assert found_of["coverage"] < 0.9


def truth(documents: list[str]) -> tuple[float, float]:
    """Return the expected reciprocal rank and reward of an order."""
    readers = list(oracle.every_reader(documents, ATTRACTION))
    ranks = [max((1 / (1 + documents.index(each)) for each in worths), default=0.0) for worths, _ in readers]
    return (
        sum(p * rank for rank, (_, p) in zip(ranks, readers, strict=True)),
        sum(p * sum(worths.values()) for worths, p in readers),
    )


@pytest.mark.parametrize("limits", [Exploration(), Exploration(share=0.5, displacement=1)], ids=str)
def test_the_estimates_from_a_rankers_own_lists_are_right_within_their_errors(limits: Exploration) -> None:
    """Some 1,500 lists of a ranker that explores everything within the limits, and readers who go down them."""
    model = spec("random", exploration=limits)
    program, chance = ListProgram.of(model.start(), model), np.random.default_rng(1)
    best = [IDS[row] for row in sample_list(program, rows(4), None, 4, draw=0).best]
    own = [best[1], best[0], *best[2:]]  # one place from where the best estimate has it
    amounts: Amounts = {}
    for draw in range(1500):
        found = sample_list(program, rows(4), None, 4, draw=draw)
        assert found.log_p is not None
        agreed = agreement(found.log_p, found.order, [IDS.index(each) for each in own], found.best, limits.share)
        entry = impression(ids=[IDS[row] for row in found.order], agreed=found.agreed, own_agreed=agreed)
        events = [(each, "click") for each in read(entry.ids, chance)]
        merge(amounts, quality.list_amounts(entry))
        merge(amounts, quality.event_amounts(entry, [], events, ACTIONS))
    told = quality.summary(amounts)
    for order, documents in (("best", best), ("own", own)):
        rank, reward = truth(documents)
        assert told[order]["rank"] == pytest.approx(rank, abs=4 * told[order]["rank_error"])
        assert told[order]["reward"] == pytest.approx(reward, abs=4 * told[order]["reward_error"])
        assert 0 < told[order]["rank_error"] < 0.1


def read(shown: list[str], chance: np.random.Generator) -> list[str]:
    """Return what somebody clicks who goes down the list and leaves after half of the clicks."""
    clicked = []
    for document in shown:
        if chance.random() < ATTRACTION[document]:
            clicked.append(document)
            if chance.random() < 0.5:
                break
    return clicked


def test_what_is_shown_in_another_mode_is_measured_there_and_nothing_is_estimated() -> None:
    amounts: Amounts = {}
    for mode, document in (("exploit", "a"), ("shadow", "b"), ("own", "a")):
        entry = impression(mode=mode, own_agreed=b"")
        merge(amounts, quality.list_amounts(entry))
        merge(amounts, quality.event_amounts(entry, [], [(document, "buy")], ACTIONS))
    told = quality.summary(amounts)
    assert {name: (each["lists"], each["rank"], each["reward"]) for name, each in told.items()} == {
        "exploit": (1, 1.0, 10.0),
        "shadow": (1, 0.5, 10.0),
        "shown": (2, 0.75, 10.0),
    }
    assert quality.exploration(amounts) is None


@pytest.mark.parametrize("changes", [{}, {"own_agreed": b"", "earlier": [b"the first page"]}, {"mode": "own"}], ids=str)
def test_later_pages_and_lists_of_earlier_versions_are_not_counted(changes: dict[str, Any]) -> None:
    entry = impression(**changes)
    assert quality.list_amounts(entry) == quality.event_amounts(entry, [], [("a", "click")], ACTIONS) == {}


def test_a_list_without_probabilities_is_measured_alone() -> None:
    assert quality.summary(quality.list_amounts(impression(own_agreed=b""))).keys() == {"learn", "shown"}


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
