from __future__ import annotations

import pytest
from helpers.service_small import created, impression, shown

from perturank.service.log import Log
from perturank.service.log.feedback import close_windows, closed_up_to, record_feedback
from perturank.service.log.records import Feedback, new_id
from perturank.service.log.refusals import Contradiction, Refused


def give(log: Log, name: bytes, clicks: str = "", final: bool = False) -> str:
    with log.transaction() as transaction:
        return record_feedback(transaction, "m", name, list(clicks), final)


def close(log: Log, position: int) -> int | None:
    with log.transaction() as transaction:
        return close_windows(transaction, "m", position)


def given(log: Log) -> list[tuple[str, bool, str]]:
    entries = [record.entry for record in log.read() if isinstance(record.entry, Feedback)]
    return [("".join(entry.clicks), entry.final, entry.effect) for entry in entries]


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


def test_a_new_click_after_the_last_word_is_a_contradiction(log: Log) -> None:
    name = shown(log)
    give(log, name, "a", True)
    with pytest.raises(Contradiction, match="final before 'b'"):
        give(log, name, "b")
    assert give(log, name, "a") == "known"
    assert given(log) == [("a", True, "counted")]


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
