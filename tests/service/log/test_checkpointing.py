from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perturank.service.log import checkpointing, locking, merging
from perturank.service.log.checkpointing import PAGE_BYTES, PAGES_TO_MERGE, Checkpointer
from perturank.service.log.merging import reading
from perturank.service.log.spare import Spare
from perturank.service.log.sqlite import SqliteLog
from perturank.service.log.wal import FRAME_HEADER, HEADER, Extent, extent

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


def test_no_commit_merges(log: SqliteLog) -> None:
    log._checkpointer.close()
    before = n_pages(log)
    for n in range(2 * PAGES_TO_MERGE // 100):
        write(log, str(n))
    assert n_pages(log) == before
    assert n_pages(log, "-wal") > 2 * PAGES_TO_MERGE


def test_what_writes_faster_than_can_be_merged_waits(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointing, "PAGES_TO_MERGE", 1)
    monkeypatch.setattr(checkpointing, "MOST_PAGES", 250)
    connect, may_go_on = log._checkpointer._merger._connect, threading.Event()

    def slow() -> sqlite3.Connection:
        may_go_on.wait()
        return connect()

    log._checkpointer._merger._connect = slow
    write(log)  # begins a merge
    write(log)
    thread = threading.Thread(target=write, args=(log,))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    may_go_on.set()
    thread.join()
    log._checkpointer.wait()
    assert n_pages(log) >= 100


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


def test_nothing_is_merged_that_the_copy_does_not_hold(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    merge, wal = merging._merged, log.path.with_name("log.db-wal")
    copies: list[Extent] = []

    def merged(connection: sqlite3.Connection) -> bool:
        copy, before = extent(log.path.with_name("log.db-merging")), extent(wal)
        assert copy is not None
        assert copy == before
        if not copies:
            write(log, "late")  # beside the merge
        copies.append(copy)
        is_whole = merge(connection)
        _, n_pages, n_merged = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert HEADER + n_merged * (FRAME_HEADER + PAGE_BYTES) <= copy.n_whole
        assert is_whole == (n_merged == n_pages)
        return is_whole

    monkeypatch.setattr(merging, "_merged", merged)
    write(log)
    write(log, "hot")
    log._checkpointer.wrote(PAGES_TO_MERGE, 0)
    log._checkpointer.wait()
    assert len(copies) == 2
    assert copies[0].n_whole < copies[1].n_whole
    assert not log.path.with_name("log.db-merging").exists()
    assert log.stored("late") == CONTENT


def test_who_cuts_the_wal_file_merges_nothing_that_came_in_between(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log)
    merger = log._checkpointer._merger
    merge, merged_first, n_cut = merger.merge, list[bytes](), 0

    def merged(patience: float, at_end: Callable[[], None], then: Callable[[], bool]) -> bool:
        def later() -> bool:
            nonlocal n_cut
            n_cut += 1
            if n_cut == 1:
                write(log, "late")
                merged_first.append(log.path.read_bytes())
            return then()

        return merge(patience, at_end, later)

    with monkeypatch.context() as patch:
        patch.setattr(merger, "merge", merged)
        assert not merger.cut()
        assert log.path.read_bytes() == merged_first[0]
        log._checkpointer.cut()
    assert n_cut == 2
    assert n_pages(log, "-wal") == 0
    assert log.stored("late") == CONTENT


def test_a_log_that_gives_room_back_waits_for_a_merge_and_cuts_the_wal_file(log: SqliteLog) -> None:
    connect = log._checkpointer._merger._connect

    def slow() -> sqlite3.Connection:
        time.sleep(0.2)
        return connect()

    log._checkpointer._merger._connect = slow
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
        if n not in (3, 4):
            raise sqlite3.OperationalError("disk I/O error")
        return sqlite3.connect(tmp_path / "log.db", isolation_level=None)

    checkpointer = Checkpointer(connect, tmp_path / "log.db")
    tried = []
    for _ in range(6):
        checkpointer.wrote(1, 0)
        checkpointer.wait()
        tried.append(n)
    assert tried == [1, 2, 2, 4, 5, 6]  # ever later after one in vain; the third has two connections
    assert ["disk I/O error" in record.message for record in caplog.records] == [True] * 2
    checkpointer.close()
    checkpointer.wrote(9, 0)
    assert n == 6


def test_what_somebody_keeps_from_being_merged_is_not_copied_again_and_again(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointing, "PAGES_TO_MERGE", 50)
    monkeypatch.setattr(merging, "SECONDS_BETWEEN_PASSES", 0.0)
    copy, copied = Spare.take, 0

    def take(spare: Spare, wanted: Extent | None) -> None:
        nonlocal copied
        copied += wanted is not None and spare._held is None
        copy(spare, wanted)

    monkeypatch.setattr(Spare, "take", take)
    with closing(reading(log.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM meta").fetchall()
        for _ in range(40):
            write(log)
            log._checkpointer.wait()
        assert 2 <= copied <= 7
    log._checkpointer._try()
    assert not log.path.with_name("log.db-merging").exists()


def test_a_merge_gives_way_to_a_process_that_writes(log: SqliteLog, caplog: pytest.LogCaptureFixture) -> None:
    write(log)
    with closing(log._checkpointer._merger._connect()) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not log._checkpointer._try()
    write(log)  # nobody is held back any more
    with locking.alone(log.path, 0.0) as is_alone:
        assert is_alone
    assert log._checkpointer._try()
    assert not caplog.records


def test_a_log_that_closes_and_cannot_be_merged_leaves_its_wal_file(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def take(spare: Spare, wanted: Extent | None) -> None:
        raise OSError("no space left")

    write(log)
    before = log.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Spare, "take", take)
        log.close()
    assert "no space left" in caplog.text
    assert log.path.read_bytes() == before
    assert n_pages(log, "-wal") >= 100
    with closing(SqliteLog(log.path)) as again:
        assert again.stored("x") == CONTENT
    assert sorted(file.name for file in log.path.parent.iterdir()) == ["log.db", "log.db-merge", "log.db-open"]


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
