from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perturank.service.log import checkpointing
from perturank.service.log.checkpointing import PAGE_BYTES, PAGES_TO_MERGE, Checkpointer
from perturank.service.log.sqlite import SqliteLog

CONTENT = bytes(100 * PAGE_BYTES)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    opened = SqliteLog(tmp_path / "log.db")
    yield opened
    opened.close()


def write(log: SqliteLog, name: str = "x") -> None:
    with log.transaction() as transaction:
        transaction.store(name, CONTENT)


def n_pages(log: SqliteLog, end: str = "") -> int:
    return log.path.with_name(log.path.name + end).stat().st_size // PAGE_BYTES


def test_what_is_written_is_merged_beside_the_commits(log: SqliteLog) -> None:
    before = n_pages(log)
    for n in range(PAGES_TO_MERGE // 100 - 1):
        write(log, str(n))
    assert n_pages(log) == before
    write(log)
    log._checkpointer.wait()
    assert n_pages(log) >= PAGES_TO_MERGE
    assert log.stored("x") == CONTENT


def test_no_commit_merges_unless_the_wal_file_is_very_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def grown(most: int) -> int:
        monkeypatch.setattr("perturank.service.log.sqlite.MOST_PAGES", most)
        log = SqliteLog(tmp_path / f"{most}.db")
        log._checkpointer.close()
        before = n_pages(log)
        for n in range(15):
            write(log, str(n))
        grown = n_pages(log) - before
        log.close()
        return grown

    assert grown(checkpointing.MOST_PAGES) == 0
    assert grown(1200) > 1200


def test_the_wal_file_begins_anew_when_all_of_it_is_merged(log: SqliteLog) -> None:
    for _ in range(5):
        for _ in range(PAGES_TO_MERGE // 100):
            write(log)
        log._checkpointer.wait()
    assert n_pages(log, "-wal") < 2 * PAGES_TO_MERGE


def test_the_wal_file_begins_anew_between_two_that_read(log: SqliteLog) -> None:
    with closing(sqlite3.connect(log.path, isolation_level=None)) as reader:
        for n in range(60):
            if n % 3 == 0:
                reader.execute("BEGIN")
                reader.execute("SELECT name FROM blobs").fetchall()
            write(log, str(n % 5))
            if n % 3 == 1:
                reader.execute("COMMIT")
            if n % 3 == 2:
                log._checkpointer.wait()
                log._checkpointer.wrote(PAGES_TO_MERGE, 0)
                log._checkpointer.wait()
    assert n_pages(log, "-wal") < 500  # three commits, not sixty


def test_a_merge_goes_on_until_nobody_who_reads_keeps_it_from_the_last_commit(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, pauses = sqlite3.connect(log.path, isolation_level=None, check_same_thread=False), 0
    merging = log.path.with_name("log.db-merging")

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        assert merging.exists()
        if pauses == 5:
            reader.execute("COMMIT")

    monkeypatch.setattr(time, "sleep", pause)
    write(log, "before")
    reader.execute("BEGIN")
    reader.execute("SELECT name FROM blobs").fetchall()
    for n in range(PAGES_TO_MERGE // 100):
        write(log, str(n))
    log._checkpointer.wait()
    assert pauses == 5
    _, n_written, n_merged = log._connection().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    assert n_merged == n_written
    assert n_pages(log) > PAGES_TO_MERGE
    assert not merging.exists()
    reader.close()


def test_a_log_that_gives_room_back_waits_for_a_merge_and_cuts_the_wal_file(log: SqliteLog) -> None:
    connect = log._checkpointer._connect

    def slow() -> sqlite3.Connection:
        time.sleep(0.2)
        return connect()

    log._checkpointer._connect = slow
    for n in range(PAGES_TO_MERGE // 100):
        write(log, str(n))
    thread = log._checkpointer._thread
    assert thread is not None
    assert not log.give_back()
    assert not thread.is_alive()
    assert n_pages(log, "-wal") == 0


def test_a_merge_that_fails_is_said_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("perturank.service.log.checkpointing.PAGES_TO_MERGE", 1)
    n = 0

    def connect() -> sqlite3.Connection:
        nonlocal n
        n += 1
        if n != 3:
            raise sqlite3.OperationalError("disk I/O error")
        return sqlite3.connect(tmp_path / "log.db")

    checkpointer = Checkpointer(connect, tmp_path / "merging")
    for _ in range(4):
        checkpointer.wrote(1, 0)
        checkpointer.wait()
    assert n == 4
    assert ["disk I/O error" in record.message for record in caplog.records] == [True] * 2  # the third had worked
    checkpointer.close()
    checkpointer.wrote(1, 0)
    assert n == 4


def test_a_thread_too_many_does_not_undo_what_is_committed(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("perturank.service.log.checkpointing.PAGES_TO_MERGE", 1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        write(log)
    assert log.stored("x") == CONTENT
    write(log)
    log._checkpointer.wait()
    assert n_pages(log) >= 100
