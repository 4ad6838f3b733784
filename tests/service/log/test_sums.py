"""The sums beside the log say what counting the log would say, and stay few."""

from __future__ import annotations

import time

import pytest
from service_small import clicked, created, impression, shown

from perturank.service.log import Log
from perturank.service.log.feedback import close_windows, give_feedback
from perturank.service.log.sums import HOUR, LARGEST, MINUTE, MOST_ROWS, TOTAL, Amounts, Lags, Progress, Tally
from perturank.service.sealing import fresh

DAY = 86_400_000


def totals(log: Log, model: str = "m") -> Amounts:
    return next(row.body.amounts for row in log.sums((TOTAL,)) if row.model == model)


def progress(log: Log) -> Progress:
    found = log.sums((TOTAL,))[0].body.progress
    assert found is not None
    return found


def add(log: Log, model: str = "m", **amounts: float) -> None:
    with log.transaction() as transaction:
        transaction.tally.add(model, amounts)


def test_amounts_of_transactions_add_up_in_the_total_and_in_their_minute(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_700_000_030.0
    monkeypatch.setattr(time, "time_ns", lambda: int(now * 1e9))
    add(log, a=1, b=2)
    add(log, a=3)
    add(log, "other", a=10)
    total, minute = (row for row in log.sums((TOTAL, MINUTE)) if row.model == "m")
    assert total.body.amounts == minute.body.amounts == {"a": 4, "b": 2}
    assert minute.start <= now < minute.start + MINUTE
    assert totals(log, "other") == {"a": 10}


def test_a_transaction_that_fails_adds_nothing(log: Log) -> None:
    def fail() -> None:
        with log.transaction() as transaction:
            transaction.tally.add("m", {"a": 1})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert log.sums((TOTAL, MINUTE)) == []


def test_of_largest_amounts_the_largest_is_kept(log: Log) -> None:
    for amount in (2.0, 5.0, 3.0):
        with log.transaction() as transaction:
            transaction.tally.add("m", {LARGEST + "lag": amount})
    assert totals(log) == {LARGEST + "lag": 5.0}


def test_minutes_become_hours_and_the_rows_stay_few(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_700_000_000_000]
    monkeypatch.setattr(time, "time_ns", lambda: now[0] * 1_000_000)
    n = 2000
    for _ in range(n):  # one each half hour, for 41 days; a log without entries follows the clock
        add(log, a=1)
        now[0] += DAY // 48
    rows = log.sums((TOTAL, MINUTE, HOUR))
    assert len(rows) <= MOST_ROWS
    assert totals(log) == {"a": n}
    hours = [row for row in rows if row.span == HOUR]
    assert all(row.body.amounts == {"a": 2} for row in hours[1:-1])
    assert len(hours) > 700


def test_clicks_are_counted_at_their_places_once(log: Log) -> None:
    created(log)
    name = shown(log)
    for part in (["b"], ["b", "d"], ["d"]):
        with log.transaction() as transaction:
            give_feedback(transaction, "m", name, part, False)
    counted = totals(log)
    assert {key: counted[key] for key in counted if key.startswith(("click", "feedback"))} == {
        "click 2": 1,
        "click 4": 1,
        "feedback recorded": 2,
    }


def test_late_and_early_feedback_is_told_apart(log: Log) -> None:
    created(log)
    late = shown(log)
    with log.transaction() as transaction:
        close_windows(transaction, "m", log.tail())
        assert give_feedback(transaction, "m", late, ["a"], True) == "late"
        assert give_feedback(transaction, "m", fresh(log.tail() + 9), ["a"], True) == "early"
    counted = totals(log)
    assert (counted["feedback late"], counted["feedback early"]) == (1, 1)
    assert not any(name.startswith("click") for name in counted)


def test_what_waits_to_be_learned_has_a_lag_until_it_is_reached(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    created(log)
    clicked(log, shown(log), 0)
    held = progress(log)
    assert held.lag(held.since + 3000) == 3.0
    monkeypatch.setattr(time, "time_ns", lambda: (held.since + 2000) * 1_000_000)
    with log.transaction() as transaction:
        transaction.tally.reached("m", held.done, held.since)
    assert progress(log).lag(held.since + 9000) == 0
    counted = totals(log)
    assert (counted["lags"], counted["lag"], counted[LARGEST + "lag"]) == (1, 2.0, 2.0)


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
        transaction.tally.reached("m", progress(log).done, progress(log).since)
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


def test_what_came_while_the_learner_was_at_work_goes_on_waiting(log: Log) -> None:
    created(log)
    clicked(log, shown(log), 0)
    first = progress(log).done
    clicked(log, shown(log, impression(1)), 1)
    later = progress(log).since + 700
    with log.transaction() as transaction:
        transaction.tally.reached("m", first, later)
    assert progress(log).lag(later + 1000) == 1.0


def test_the_sums_of_one_model_are_read_without_those_of_others(either: Log) -> None:
    with either.transaction() as transaction:
        for model in ("m", "n", "o"):
            transaction.tally.add(model, {"a": 1})
    found = either.sums((TOTAL, MINUTE), model="n")
    assert [(row.model, row.span) for row in found] == [("n", TOTAL), ("n", MINUTE)]
    assert either.sums((HOUR,), model="n") == []


def test_a_forgotten_model_has_no_sums(log: Log) -> None:
    add(log, a=1)
    add(log, "kept", a=1)
    with log.transaction() as transaction:
        transaction.tally.forget("m")
    assert {row.model for row in log.sums((TOTAL, MINUTE, HOUR))} == {"kept"}


def test_a_model_without_a_name_in_sql_is_only_a_text(log: Log) -> None:
    add(log, "m'; DROP TABLE sums; --", a=1)
    assert totals(log, "m'; DROP TABLE sums; --") == {"a": 1}


def test_whether_somebody_learns_is_seen_from_elsewhere(log: Log) -> None:
    assert not log.is_led()
    assert log.try_to_lead()
    assert log.is_led()


def test_a_transaction_reads_two_rows_of_sums_however_long_the_log_is() -> None:
    asked: list[tuple[str, tuple[object, ...]]] = []

    def execute(query: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        asked.append((query, values))
        return []

    tally = Tally()
    for _ in range(256):
        tally.add("m", {"a": 1})
    tally.write(execute, "sums", 1_700_000_000_000)
    written = [query for query, _ in asked if query.startswith("INSERT")]
    assert len(written) == 2
