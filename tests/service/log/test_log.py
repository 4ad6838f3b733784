"""What every log does, wherever it is kept."""

from __future__ import annotations

import os
import threading
import time

import pytest
from helpers.service_small import created, impression, shown, spec

from perturank.service.log import Log
from perturank.service.log.records import Changed, Closed, Entry, Feedback, Pinned


def test_what_is_appended_is_read_back_in_order(log: Log) -> None:
    created(log)
    name = shown(log)
    first, second = log.read()
    assert (first.position, first.model, first.entry) == (1, "m", Changed(0, spec()))
    assert (second.position, second.impression, second.entry) == (2, name, impression())
    assert [record.position for record in log.read(after=1)] == [2]
    assert [record.position for record in log.read(up_to=1)] == [1]
    assert list(log.read(model="other")) == []


def test_long_logs_are_read_page_by_page(log: Log) -> None:
    with log.transaction() as transaction:
        for _ in range(1201):
            transaction.append("m", Closed(1))
    assert [record.position for record in log.read()] == list(range(1, 1202))


def test_records_are_found_by_their_positions(either: Log) -> None:
    names = [shown(either, impression(seed)) for seed in range(5)]
    found = {record.position: record.impression for record in either.at([4, 2, 99])}
    assert found == {2: names[1], 4: names[3]}
    assert either.at([]) == []
    assert len(either.at(range(1, 2000))) == 5


def test_records_are_found_by_their_impressions(either: Log) -> None:
    names = [shown(either, impression(seed)) for seed in range(70)]
    with either.transaction() as transaction:
        transaction.append("m", Feedback(["a"], True, "counted"), names[1])
    assert [record.position for record in either.about([names[3], names[1], b"nobody"])] == [2, 4, 71]
    assert [record.position for record in either.about(names)] == list(range(1, 72))
    assert either.about([]) == []


def test_rare_entries_are_found_among_many_impressions(log: Log) -> None:
    created(log)
    for seed in range(5):
        shown(log, impression(seed))
    with log.transaction() as transaction:
        transaction.append("m", Pinned(3))
        transaction.append("n", Pinned(4))
        newest = transaction.newest("m", Pinned)
        assert newest is not None
        assert newest.entry == Pinned(3)
        assert transaction.newest("m", Closed) is None
    assert [record.position for record in log.control_records()] == [1, 7, 8]
    assert [record.position for record in log.control_records(after=7)] == [8]


def test_only_the_kinds_that_are_asked_for_are_read(either: Log) -> None:
    entries: list[Entry] = [Closed(1), Pinned(1), Closed(2), Changed(0, spec()), Pinned(2)]
    with either.transaction() as transaction:
        for entry in entries:
            transaction.append("m", entry)
            transaction.append("n", entry)
    assert [record.position for record in either.control_records(kinds=(Changed, Pinned))] == [3, 4, 7, 8, 9, 10]
    assert [record.position for record in either.control_records(8, kinds=(Pinned,))] == [9, 10]
    assert [record.position for record in either.control_records(4, kinds=(Closed, Pinned))] == [5, 6, 9, 10]
    assert [record.position for record in either.newest("m", Pinned, 5)] == [9, 3]
    assert [record.position for record in either.newest("m", Closed, 1)] == [5]
    assert [record.position for record in either.newest("n", Closed, 5, 5)] == [2]
    assert either.newest("n", Closed, 5, 1) == []


def test_a_transaction_that_fails_leaves_nothing(log: Log) -> None:
    def fail() -> None:
        with log.transaction() as transaction:
            transaction.append("m", Closed(1))
            transaction.store("x", b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (log.tail(), log.stored("x")) == (0, None)


def test_bytes_and_numbers_are_kept_by_name(log: Log) -> None:
    with log.transaction() as transaction:
        assert transaction.remembered("epoch") == 0
        transaction.remember("epoch", 3)
        transaction.store("m/1", b"one")
        transaction.store("m/1", b"two")
        transaction.store("n/1", b"")
    assert log.stored("m/1") == b"two"
    assert log.names("m/") == ["m/1"]
    with log.transaction() as transaction:
        assert transaction.remembered("epoch") == 3
        transaction.remove("m/1")
    assert log.names("") == ["n/1"]


def test_all_bytes_of_a_model_go_with_it_even_those_of_this_moment(log: Log) -> None:
    with log.transaction() as transaction:
        for name in ("m/1", "m/version/1", "m%/1", "mm/1"):
            transaction.store(name, b"")
    with log.transaction() as transaction:
        transaction.store("m/state", b"")
        transaction.remove_all("m/")
    assert log.names("") == ["m%/1", "mm/1"]


def test_time_never_runs_backwards_in_the_log(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    shown(log)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)  # 1970
    shown(log)
    first, second = log.read()
    assert second.at == first.at


def test_a_transaction_sees_what_it_has_appended_as_if_it_were_written(log: Log) -> None:
    created(log)
    known, new = shown(log, impression(1)), b"n" * 12
    with log.transaction() as transaction:
        transaction.prefetch([known, new, b"never" + bytes(7)])
        assert [record.entry for record in transaction.about(known)] == [impression(1)]
        assert transaction.about(new) == []
        transaction.append("m", impression(2), new)
        transaction.append("m", Feedback(["a"], False, "counted"), new)
        transaction.append("m", Feedback(["b"], False, "counted"), known)
        seen = {name: transaction.about(name) for name in (known, new)}
        unforeseen = b"u" * 12
        transaction.append("m", impression(3), unforeseen)
        assert [record.entry for record in transaction.about(unforeseen)] == [impression(3)]
        assert transaction.newest("m", Closed) is None
        transaction.append("m", Closed(2))
        newest = transaction.newest("m", Closed)
    with log.transaction() as transaction:
        assert {name: transaction.about(name) for name in (known, new)} == seen
        assert transaction.newest("m", Closed) == newest
    assert [record.position for record in log.read()] == list(range(1, 8))


def test_what_was_cut_is_not_seen_any_more_by_its_own_transaction(log: Log) -> None:
    created(log)
    known, new = shown(log, impression(1)), b"n" * 12
    with log.transaction() as transaction:
        transaction.prefetch([known])
        transaction.append("m", impression(2), new)
        transaction.append("m", Closed(2))
        assert transaction.cut([4], [known, new]) == 3
        assert (transaction.about(known), transaction.about(new)) == ([], [])
        assert transaction.newest("m", Closed) is None
    assert [record.position for record in log.read()] == [1]


def n_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_threads_that_have_ended_leave_no_connections_behind(log: Log) -> None:
    before = n_descriptors()
    for _ in range(50):
        thread = threading.Thread(target=log.tail)
        thread.start()
        thread.join()
    assert n_descriptors() <= before + 3  # at most those of one more connection


def test_a_log_that_is_closed_leaves_a_transaction_to_its_thread(log: Log) -> None:
    begun, closed = threading.Event(), threading.Event()

    def write() -> None:
        with log.transaction() as transaction:
            begun.set()
            closed.wait()
            transaction.append("m", Closed(1))

    thread = threading.Thread(target=write)
    thread.start()
    begun.wait()
    log.close()
    closed.set()
    thread.join()
    assert log.tail() == 1
