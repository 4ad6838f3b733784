from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from helpers.service_small import impression

from perturank.errors import BadInput
from perturank.service.log import open_log
from perturank.service.log.records import Closed, Impression, Pinned
from perturank.service.log.refusals import LogFull, NotReady
from perturank.service.log.sqlite import PAGES_AT_ONCE, SqliteLog


def test_two_processes_write_one_order(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    program = (
        "import sys, pathlib\n"
        "from perturank.service.log.sqlite import SqliteLog\n"
        "from perturank.service.log.records import Pinned\n"
        "log = SqliteLog(pathlib.Path(sys.argv[1]))\n"
        "for i in range(60):\n"
        "    with log.transaction() as t: t.append(sys.argv[2], Pinned(i))\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", program, path, name]) for name in ("a", "b")]
    assert [child.wait(60) for child in children] == [0, 0]
    records = list(log.read())
    assert [record.position for record in records] == list(range(1, 121))
    for name in ("a", "b"):
        assert [record.entry for record in records if record.model == name] == [Pinned(i) for i in range(60)]
    log.close()


def test_every_commit_is_flushed_to_disk(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    assert log.rows("PRAGMA journal_mode") == [("wal",)]
    assert log.rows("PRAGMA synchronous") == [(2,)]  # FULL
    log.close()


def test_an_impression_takes_little_more_than_its_numbers(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    before = log.size()
    with log.transaction() as transaction:
        for seed in range(500):
            transaction.append("m", impression(seed), seed.to_bytes(12, "big"))
    raw = 4 * 5 * 4
    assert log.size() - before < 500 * (raw + 250)
    assert [type(record.entry) for record in log.read()] == [Impression] * 500


def test_an_address_or_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no address of a log"):
        open_log("mysql://x")
    with pytest.raises(BadInput, match="there is no log"):
        open_log(f"sqlite:///{tmp_path / 'nowhere.db'}")
    (tmp_path / "text.db").write_text("hello, world" * 100)
    with pytest.raises(BadInput, match="cannot be opened as a log"):
        open_log(f"sqlite:///{tmp_path / 'text.db'}")


def test_a_log_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    SqliteLog(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = 9 WHERE name = 'format'")
    connection.close()
    with pytest.raises(BadInput, match="has format 9; this version reads format 1"):
        SqliteLog(path)


def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    log.tail()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("log.db", "log.db-wal", "log.db-shm"), 0o600)
    log.close()


def test_a_log_that_is_long_being_written_is_busy_and_not_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perturank.service.log.sqlite.SECONDS_TO_WAIT", 0.1)
    one, other = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "log.db")
    with one.transaction(), pytest.raises(NotReady, match="another process"), other.transaction():
        pass
    one.close()
    other.close()


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        (sqlite3.SQLITE_BUSY_RECOVERY, NotReady),
        (sqlite3.SQLITE_IOERR_READ, NotReady),
        (sqlite3.SQLITE_READONLY_DBMOVED, NotReady),
        (sqlite3.SQLITE_FULL, LogFull),
        (sqlite3.SQLITE_IOERR_SHMSIZE, LogFull),  # what a full disk says where no -shm file can be made
        (sqlite3.SQLITE_ERROR, sqlite3.OperationalError),
    ],
)
def test_only_a_full_disk_asks_for_room(tmp_path: Path, code: int, refusal: type[Exception]) -> None:
    log = SqliteLog(tmp_path / "log.db")
    error = sqlite3.OperationalError("no")
    error.sqlite_errorcode = code
    with pytest.raises(Exception, match="no") as raised, log.transaction():
        raise error
    assert type(raised.value) is refusal
    assert ("make room" in str(raised.value)) == (refusal is LogFull)
    log.close()


def test_a_log_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    with log.borrow() as connection:
        connection.execute("PRAGMA query_only = ON")
    with (
        pytest.raises(NotReady, match="attempt to write a readonly database"),
        log.transaction() as transaction,
    ):
        transaction.store("x", b"1")
    log.close()


@pytest.mark.parametrize(
    "read",
    [
        SqliteLog.tail,
        SqliteLog.control_records,
        lambda log: list(log.read(up_to=1)),
        lambda log: log.all_of("m", Pinned),
        lambda log: log.stored("x"),
        lambda log: log.names(""),
        lambda log: log.counters((60,)),
        SqliteLog.give_back,
    ],
)
def test_a_log_that_cannot_be_read_is_not_ready_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[SqliteLog], object]
) -> None:
    monkeypatch.setattr("perturank.service.log.sqlite.SECONDS_TO_WAIT", 0.05)
    log = SqliteLog(tmp_path / "log.db")
    log.close()
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(NotReady, match="another process"):
            read(log)
        other.execute("COMMIT")
    (tmp_path / "log.db").rename(tmp_path / "away.db")
    (tmp_path / "log.db").mkdir()
    with pytest.raises(NotReady, match="unable to open"):
        read(log)
    (tmp_path / "log.db").rmdir()
    (tmp_path / "away.db").rename(tmp_path / "log.db")
    read(log)
    log.close()


def test_one_process_leads_at_a_time(tmp_path: Path) -> None:
    one, other = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "log.db")
    assert one.try_to_lead()
    assert one.try_to_lead()
    assert not other.try_to_lead()
    one.close()
    assert other.try_to_lead()
    other.close()


def test_transactions_of_all_sizes_share_a_few_statements(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    said: list[str] = []
    with log.borrow() as connection:
        connection.set_trace_callback(said.append)
    names = [n.to_bytes(12, "big") for n in range(100)]
    for n in range(1, 101):
        with log.transaction() as transaction:
            transaction.prefetch(names[:n])
            for name in names[:n]:
                transaction.append("m", Pinned(n), name)
    powers = {1, 2, 4, 8, 16, 32, 64}
    assert {each.count("x'") for each in said if "impression IN (" in each} == powers
    assert {each.count("x'") // 2 for each in said if each.startswith("INSERT INTO log")} == powers
    log.close()


def n_free(log: SqliteLog) -> int:
    ((n,),) = log.rows("PRAGMA freelist_count")
    return int(n)


def test_as_many_pages_are_given_back_as_are_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perturank.service.log.sqlite.PAGES_AT_ONCE", 300)
    log = SqliteLog(tmp_path / "log.db")
    with log.transaction() as transaction:
        transaction.store("x", bytes(500 * 4096))
    with log.transaction() as transaction:
        transaction.remove("x")
    assert n_free(log) >= 500
    assert log.give_back()
    assert 200 <= n_free(log) < 300
    assert not log.give_back()
    assert log.size() < 100 * 4096
    log.close()


def test_asking_who_leads_keeps_nobody_from_leading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perturank.service.log.sqlite.SECONDS_TO_LEAD", 60)  # however late the timer is
    monkeypatch.setattr("perturank.service.log.sqlite.TRIES_TO_LEAD", 6000)
    one, other = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "log.db")
    asking = (tmp_path / "log.db-learner").open("a")
    fcntl.flock(asking, fcntl.LOCK_SH)  # as `is_led` does, for a moment
    threading.Timer(0.03, asking.close).start()
    assert other.try_to_lead()
    assert one.is_led()
    other.close()
    assert not one.is_led()
    one.close()


def test_room_is_given_back_by_many_pages_at_a_time(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    names = [os.urandom(12) for _ in range(1500)]
    with log.transaction() as transaction:
        for name in names:
            transaction.append("m", impression(version=1, ids=["x" * 4000]), name)
    full = log.size()
    with log.transaction() as transaction:
        transaction.cut([], names)
    n = 1
    while log.give_back():
        n += 1
    assert 1 < n < 2 + 2 * len(names) // PAGES_AT_ONCE
    assert log.size() < full / 4
    log.close()


def test_a_log_of_an_earlier_version_gets_the_index_of_what_is_few(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    with log.transaction() as transaction:
        for entry in (Pinned(1), Closed(1), Pinned(2)):
            transaction.append("m", entry)
    with log.borrow() as connection:
        connection.execute("DROP INDEX few_by_position")
    log.close()
    log = SqliteLog(tmp_path / "log.db")
    assert [record.position for record in log.control_records(kinds=(Pinned,))] == [1, 3]
    log.close()
