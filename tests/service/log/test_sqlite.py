from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from service_small import created, impression, shown, spec

from perturank.errors import BadInput
from perturank.service.entries import Changed, Closed, Impression, Pinned
from perturank.service.log import Log
from perturank.service.log.opening import open_log
from perturank.service.log.sqlite import SqliteLog


def test_what_is_appended_is_read_back_in_order(log: Log) -> None:
    created(log)
    name = shown(log)
    first, second = log.read()
    assert (first.position, first.model, first.entry) == (1, "m", Changed(0, spec()))
    assert (second.position, second.impression, second.entry) == (2, name, impression())
    assert [record.position for record in log.read(after=1)] == [2]
    assert [record.position for record in log.read(through=1)] == [1]
    assert list(log.read(model="other")) == []


def test_long_logs_are_read_page_by_page(log: Log) -> None:
    with log.transaction() as transaction:
        for _ in range(1201):
            transaction.append("m", Closed(1))
    assert [record.position for record in log.read()] == list(range(1, 1202))


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
    assert [record.position for record in log.rare()] == [1, 7, 8]
    assert [record.position for record in log.rare(after=7)] == [8]


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


def test_time_never_runs_backwards_in_the_log(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    shown(log)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)  # 1970
    shown(log)
    first, second = log.read()
    assert second.at == first.at


def test_two_processes_write_one_order(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    program = (
        "import sys, pathlib\n"
        "from perturank.service.log.sqlite import SqliteLog\n"
        "from perturank.service.entries import Pinned\n"
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


def test_every_commit_is_flushed_to_disk(log: Log) -> None:
    assert isinstance(log, SqliteLog)
    connection = log._connection()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_an_impression_takes_little_more_than_its_numbers(log: Log) -> None:
    before = log.size()
    with log.transaction() as transaction:
        for seed in range(500):
            transaction.append("m", impression(seed), seed.to_bytes(12, "big"))
    raw = 4 * 5 * 4
    assert log.size() - before < 500 * (raw + 250)
    assert all(isinstance(record.entry, Impression) for record in log.read())


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
