"""What lists, clicks and learning add to the counters beside the log, and the lag that is read from them."""

from __future__ import annotations

import math
import time

import pytest
from helpers.service_small import clicked, created, impression, shown

from perturank.service.log import Log
from perturank.service.log.counters import PROGRESS, TOTAL, Amounts, LearningProgress, list_amounts, summary
from perturank.service.log.feedback import close_windows, record_feedback
from perturank.service.log.records import Event, new_id
from perturank.service.serving.overview import Lags
from perturank.service.serving.sampling import agreement

DAY = 86_400_000


def totals(log: Log) -> Amounts:
    return log.counters((TOTAL,), model="m")[0].amounts


def progress(log: Log) -> LearningProgress:
    return LearningProgress.of(log.counters((PROGRESS,), model="m")[0].amounts)


def test_clicks_are_counted_at_their_places_once(log: Log) -> None:
    created(log)
    name = shown(log)
    for part in (["b"], ["b", "d"], ["d"]):
        with log.transaction() as transaction:
            record_feedback(transaction, "m", name, part, False)
    counted = totals(log)
    assert {key: counted[key] for key in counted if key.startswith(("click", "feedback"))} == {
        "click 2": 1,
        "click 4": 1,
        "feedback recorded": 2,
    }


def test_quality_is_counted_with_the_list_and_with_its_events(log: Log) -> None:
    created(log)
    agreed = agreement([-0.7, -0.7, 0.0, 0.0], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], 1.0)
    entry = impression(agreed=agreed, own_agreed=agreed[:4])
    name = shown(log, entry)
    with log.transaction() as transaction:
        transaction.counters.add("m", list_amounts(entry, [True] * 4))
    for part in (["b"], ["b", "a"]):
        with log.transaction() as transaction:
            record_feedback(transaction, "m", name, part, False)
    with log.transaction() as transaction:
        record_feedback(transaction, "m", name, [], False, events=[Event("a", "purchase", 12.0)])
    told = summary(totals(log))["quality"]
    assert (told["shown"]["lists"], told["shown"]["rank"], told["shown"]["reward"]) == (1, 1.0, 11.0)
    assert told["best"]["least"] == told["own"]["least"] == pytest.approx(math.exp(0.7), rel=1e-5)
    assert told["own"]["reward"] == pytest.approx(10 * math.exp(0.7), rel=1e-5)
    assert told["best"]["reward"] == pytest.approx(10 * math.exp(0.7) + math.exp(1.4), rel=1e-5)
    assert log.counters((TOTAL,), model=["none", "m"]) == log.counters((TOTAL,), model="m")
    assert log.counters((TOTAL,), model=[]) == []


def test_late_and_early_feedback_is_told_apart(log: Log) -> None:
    created(log)
    late = shown(log)
    with log.transaction() as transaction:
        close_windows(transaction, "m", log.tail())
        assert record_feedback(transaction, "m", late, ["a"], True) == "late"
        assert record_feedback(transaction, "m", new_id(log.tail() + 9), ["a"], True) == "early"
    counted = totals(log)
    assert (counted["feedback late"], counted["feedback early"]) == (1, 1)
    assert not any(name.startswith("click") for name in counted)


def test_a_clock_set_back_a_day_hides_no_lag(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    created(log)
    clicked(log, shown(log), 0)
    today, begun = time.time_ns() - DAY * 1_000_000, time.monotonic()
    monkeypatch.setattr(time, "time_ns", lambda: today)
    lags, elapsed = Lags(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: begun + elapsed)
    assert lags.of("m", progress(log)) == 0
    elapsed = 40.0
    assert lags.of("m", progress(log)) == pytest.approx(40)
    clicked(log, shown(log, impression(1)), 1)  # which does not make the first one younger
    elapsed = 50.0
    assert lags.of("m", progress(log)) == pytest.approx(50)
    with log.transaction() as transaction:
        transaction.counters.learned["m"] = (progress(log).completed, progress(log).since)
    assert lags.of("m", progress(log)) == 0
    clicked(log, shown(log, impression(2)), 0)
    assert lags.of("m", progress(log)) == 0
    elapsed = 53.0
    assert lags.of("m", progress(log)) == pytest.approx(3)


def test_the_lag_counts_from_before_it_was_first_asked_for(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    created(log)
    clicked(log, shown(log), 0)
    held = progress(log)
    monkeypatch.setattr(time, "time_ns", lambda: (held.since + 7000) * 1_000_000)
    assert Lags().of("m", held) == 7
