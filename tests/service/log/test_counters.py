"""The counters beside the log say what counting the log would say, and stay few."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

import msgspec
import psycopg
import pytest
from helpers.service_small import clicked, created, impression, shown

from perturank.service.log import Log, open_log
from perturank.service.log.counters import (
    HOUR,
    LARGEST,
    MINUTE,
    PROGRESS,
    TOTAL,
    Amounts,
    LearningProgress,
    PendingCounters,
)
from perturank.service.log.sqlite import SqliteLog

POSTGRES_TABLES = ("perturank_sums", "perturank_counters")


def totals(log: Log, model: str = "m") -> Amounts:
    return next(row.amounts for row in log.counters((TOTAL,)) if row.model == model)


def progress(log: Log) -> LearningProgress:
    return LearningProgress.of(log.counters((PROGRESS,))[0].amounts)


def add(log: Log, model: str = "m", **amounts: float) -> None:
    with log.transaction() as transaction:
        transaction.counters.add(model, amounts)


def test_amounts_of_transactions_add_up_in_the_total_and_in_their_minute(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_700_000_030.0
    monkeypatch.setattr(time, "time_ns", lambda: int(now * 1e9))
    add(log, a=1, b=2)
    add(log, a=3)
    add(log, "other", a=10)
    total, minute = (row for row in log.counters((TOTAL, MINUTE)) if row.model == "m")
    assert total.amounts == minute.amounts == {"a": 4, "b": 2}
    assert minute.start <= now < minute.start + MINUTE
    assert totals(log, "other") == {"a": 10}


def test_a_transaction_that_fails_adds_nothing(log: Log) -> None:
    def fail() -> None:
        with log.transaction() as transaction:
            transaction.counters.add("m", {"a": 1})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert log.counters((TOTAL, MINUTE)) == []


def test_of_largest_amounts_the_largest_is_kept(log: Log) -> None:
    for amount in (2.0, 5.0, 3.0):
        with log.transaction() as transaction:
            transaction.counters.add("m", {LARGEST + "lag": amount})
    assert totals(log) == {LARGEST + "lag": 5.0}


def test_minutes_become_hours_after_three_and_hours_are_deleted_after_a_month(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = 1_700_000_000 // HOUR * HOUR
    now = [began]
    monkeypatch.setattr(time, "time_ns", lambda: now[0] * 1_000_000_000)

    def hours() -> list[tuple[int, Amounts]]:
        return [((row.start - began) // HOUR, row.amounts) for row in log.counters((HOUR,))]

    for half_hour in range(16):  # a log without entries follows the clock
        now[0] = began + half_hour * HOUR // 2
        add(log, a=1)
    assert hours() == [(0, {"a": 2}), (1, {"a": 2}), (2, {"a": 2}), (3, {"a": 2}), (4, {"a": 1})]
    assert [(row.start - began) / HOUR for row in log.counters((MINUTE,))] == [4.5, 5, 5.5, 6, 6.5, 7, 7.5]
    now[0] = began + (30 * 24 + 2) * HOUR
    add(log, a=1)
    assert hours() == [(hour, {"a": 2}) for hour in range(2, 8)]
    assert [row.amounts for row in log.counters((MINUTE,))] == [{"a": 1}]
    assert totals(log) == {"a": 17}


def test_what_waits_to_be_learned_has_a_lag_until_it_is_reached(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    created(log)
    clicked(log, shown(log), 0)
    held = progress(log)
    assert held.lag(held.since + 3000) == 3.0
    monkeypatch.setattr(time, "time_ns", lambda: (held.since + 2000) * 1_000_000)
    with log.transaction() as transaction:
        transaction.counters.learned["m"] = (held.completed, held.since)
    assert progress(log).lag(held.since + 9000) == 0
    counted = totals(log)
    assert (counted["lags"], counted["lag"], counted[LARGEST + "lag"]) == (1, 2.0, 2.0)


def test_what_came_while_the_learner_was_at_work_goes_on_waiting(log: Log) -> None:
    created(log)
    clicked(log, shown(log), 0)
    first = progress(log).completed
    clicked(log, shown(log, impression(1)), 1)
    later = progress(log).since + 700
    with log.transaction() as transaction:
        transaction.counters.learned["m"] = (first, later)
    assert progress(log).lag(later + 1000) == 1.0


def test_the_sums_of_one_model_are_read_without_those_of_others(either: Log) -> None:
    with either.transaction() as transaction:
        for model in ("m", "n", "o"):
            transaction.counters.add(model, {"a": 1})
    found = either.counters((TOTAL, MINUTE), model="n")
    assert [(row.model, row.span) for row in found] == [("n", TOTAL), ("n", MINUTE)]
    assert either.counters((HOUR,), model="n") == []


def test_a_forgotten_model_has_no_sums(log: Log) -> None:
    add(log, a=1)
    add(log, "kept", a=1)
    with log.transaction() as transaction:
        transaction.counters.deleted.add("m")
    assert {row.model for row in log.counters((TOTAL, MINUTE, HOUR))} == {"kept"}


def test_a_model_without_a_name_in_sql_is_only_a_text(log: Log) -> None:
    add(log, "m'; DROP TABLE counters; --", a=1)
    assert totals(log, "m'; DROP TABLE counters; --") == {"a": 1}


def test_whether_somebody_learns_is_seen_from_elsewhere(log: Log) -> None:
    assert not log.is_led()
    assert log.try_to_lead()
    assert log.is_led()


def test_a_transaction_reads_two_rows_of_sums_however_long_the_log_is() -> None:
    asked: list[tuple[str, tuple[object, ...]]] = []

    def execute(query: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        asked.append((query, values))
        return []

    tally = PendingCounters()
    for _ in range(256):
        tally.add("m", {"a": 1})
    tally.write(execute, "counters", 1_700_000_000_000)
    written = [query for query, _ in asked if query.startswith("INSERT")]
    assert len(written) == 2


def test_the_sums_of_a_log_with_one_row_for_a_span_are_moved(either: Log) -> None:
    is_sqlite = isinstance(either, SqliteLog)
    old, new, blob, mark = ("sums", "counters", "BLOB", "?") if is_sqlite else (*POSTGRES_TABLES, "bytea", "%s")
    connect = sqlite3.connect if is_sqlite else psycopg.connect
    rows: list[tuple[Any, ...]] = [
        ("m", TOTAL, 0, [{"a": 3.0, LARGEST + "lag": 2.5}, [7, 5, 1_700_000_000_000]]),
        ("m", MINUTE, 1_700_000_040, [{"a": 1.0}, None]),
        ("m", HOUR, 1_699_998_400, [{"a": 2.0}, None]),
    ]
    with closing(connect(either.url.removeprefix("sqlite:///"))) as connection:
        connection.execute(f"DROP TABLE {new}")
        columns = f"model TEXT, span INTEGER, start BIGINT, body {blob}, PRIMARY KEY (model, span, start)"
        connection.execute(f"CREATE TABLE {old} ({columns})")
        for *key, body in rows:
            values = (*key, msgspec.msgpack.encode(body))
            connection.execute(f"INSERT INTO {old} VALUES ({', '.join([mark] * 4)})", values)
        connection.commit()
    with closing(open_log(either.url)) as log:
        found = log.counters((TOTAL, MINUTE, HOUR))
        assert [(*row,) for row in found] == [(*key, body[0]) for *key, body in rows]
        assert progress(log) == (7, 5, 1_700_000_000_000)
        add(log, a=1)
        assert totals(log)["a"] == 4
