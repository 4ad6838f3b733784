from __future__ import annotations

from typing import Any

import pytest
from helpers.service_small import created, impression, shown

from perturank.service.log import Log
from perturank.service.log.counters import TOTAL, summary
from perturank.service.log.feedback import close_windows, closed_up_to, record_feedback
from perturank.service.log.records import Event, Feedback, new_id, own_id
from perturank.service.log.refusals import Refused
from perturank.wire.specification import ACTIONS


def give(log: Log, name: bytes, clicks: str = "", final: bool = False, **more: Any) -> str:
    with log.transaction() as transaction:
        return record_feedback(transaction, "m", name, list(clicks), final, **more)


def close(log: Log, position: int) -> int | None:
    with log.transaction() as transaction:
        return close_windows(transaction, "m", position)


def given(log: Log) -> list[tuple[str, bool, str]]:
    entries = [record.entry for record in log.read() if isinstance(record.entry, Feedback)]
    return [("".join(entry.clicks), entry.final, entry.effect) for entry in entries]


def events(log: Log) -> list[list[Event] | None]:
    return [record.entry.events for record in log.read() if isinstance(record.entry, Feedback)]


def test_feedback_counts_once_however_often_it_comes(log: Log) -> None:
    name = shown(log)
    assert [give(log, name, "c", True) for _ in range(3)] == ["recorded", "known", "known"]
    assert given(log) == [("c", True, "counted")]


def test_parts_add_up_and_only_what_is_new_is_kept(log: Log) -> None:
    name = shown(log)
    assert give(log, name, "a") == "recorded"
    assert give(log, name, "ab") == "recorded"
    assert give(log, name, "ba") == "known"
    assert give(log, name, "", True) == "recorded"
    assert give(log, name, "", True) == "known"
    assert given(log) == [("a", False, "counted"), ("b", False, "counted"), ("", True, "counted")]


def test_a_part_without_clicks_says_nothing(log: Log) -> None:
    assert give(log, shown(log)) == "known"
    assert given(log) == []


def test_a_click_on_what_was_not_shown_is_refused_whole(log: Log) -> None:
    name = shown(log)
    with pytest.raises(Refused, match="'z' was clicked but not shown"):
        give(log, name, "az")
    assert given(log) == []


def test_events_after_final_feedback_are_recorded_and_a_repetition_is_known(log: Log) -> None:
    name = shown(log)
    assert give(log, name, "a", True) == "recorded"
    assert give(log, name, "b") == "recorded"
    assert give(log, name, "a") == "known"
    assert give(log, name, "", True) == "recorded"  # the second click settles at once
    assert give(log, name, "", True) == "known"
    assert given(log) == [("a", True, "counted"), ("b", False, "counted"), ("", True, "counted")]


def test_events_after_the_final_feedback_of_an_earlier_version_are_late(log: Log) -> None:
    name = shown(log)
    with log.transaction() as transaction:
        transaction.append("m", Feedback(["a"], True, "counted"), name)
    assert give(log, name, "a", True) == "known"
    assert give(log, name, "b") == "late"
    assert give(log, name, "b") == "known"


def test_an_action_with_a_document_counts_once_with_its_first_value(log: Log) -> None:
    name = shown(log)
    bought = [Event("c", "purchase", 39.9), Event("c", "purchase", 5.0)]
    assert give(log, name, "c", events=bought) == "recorded"
    assert give(log, name, "c", events=bought) == "known"
    assert give(log, name, events=[Event("c", "click", 1.0)]) == "known"
    assert give(log, name, events=[Event("c", "add_to_cart")]) == "recorded"
    assert events(log) == [[Event("c", "purchase", 39.9)], [Event("c", "add_to_cart")]]


def test_an_unknown_action_is_refused_and_the_known_ones_are_named(log: Log) -> None:
    name = shown(log)
    with pytest.raises(Refused, match="'buy' is not known") as refused:
        give(log, name, "a", events=[Event("a", "buy")])
    assert "click, add_to_cart, purchase" in str(refused.value)
    assert given(log) == []
    assert give(log, name, events=[Event("a", "buy")], actions={"buy": 2.0}) == "recorded"


def test_how_far_somebody_looked_is_new_if_it_is_further_than_before(log: Log) -> None:
    name = shown(log)
    assert [give(log, name, seen=seen) for seen in (2, 2, 1, 4)] == ["recorded", "known", "known", "recorded"]
    with pytest.raises(Refused, match="5 places were seen, and 4 shown"):
        give(log, name, seen=5)


def test_events_reward_and_value_are_counted(log: Log) -> None:
    created(log)
    name = shown(log)
    actions = ACTIONS | {"dismiss": -1.0}
    give(log, name, "ab", actions=actions)
    give(log, name, events=[Event("a", "purchase", 39.9), Event("b", "dismiss")], actions=actions)
    give(log, name, events=[Event("a", "add_to_cart", 0.1)], actions=actions)  # a purchase is worth more
    (total,) = log.counters((TOTAL,))
    found = summary(total.amounts)
    assert found["events"] == {"click": 2, "purchase": 1, "dismiss": 1, "add_to_cart": 1}
    assert (found["clicks"], found["reward"]) == (2, 10.0)  # b: 1 - 1
    assert found["values"] == {"purchase": 39.9, "add_to_cart": 0.1}


def test_feedback_after_its_window_is_kept_but_does_not_count(log: Log) -> None:
    name = shown(log)
    give(log, name, "a")
    assert close(log, log.tail()) is not None
    assert give(log, name, "b") == "late"
    assert give(log, name, "b") == "known"
    assert give(log, name, "", True) == "known"
    assert given(log) == [("a", False, "counted"), ("b", False, "late")]


def test_feedback_before_its_impression_waits_for_it(log: Log) -> None:
    name = new_id(log.tail())
    assert give(log, name, "a") == "early"
    assert give(log, name, "a") == "known"
    with log.transaction() as transaction:
        transaction.append("m", impression(), name)
    assert give(log, name, "a") == "known"
    assert give(log, name, "b", True) == "recorded"


def test_feedback_to_an_impression_lost_before_the_window_is_late(log: Log) -> None:
    name = new_id(log.tail())
    shown(log)
    close(log, log.tail())
    assert give(log, name, "a") == "late"


def test_events_of_a_query_id_wait_for_its_list_whatever_was_closed_before(log: Log) -> None:
    name = own_id("q-1", "m", log.secret)
    shown(log)
    close(log, log.tail())
    assert [give(log, name, "a"), give(log, name, "a")] == ["early", "known"]
    shown(log, name=name)
    assert give(log, name, "b") == "recorded"
    close(log, log.tail())
    assert give(log, name, "c") == "late"


def test_a_window_closes_once_and_never_opens_again(log: Log) -> None:
    created(log)
    shown(log)
    shown(log)
    assert close(log, 2) == 4
    assert close(log, 2) is None
    assert close(log, 1) is None
    assert close(log, 3) == 5
    with log.transaction() as transaction:
        assert closed_up_to(transaction, "m") == 3
        assert closed_up_to(transaction, "other") == 0
