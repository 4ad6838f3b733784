"""Damage from outside: a full disk, a process that is killed, a -wal file that is torn, files changed by hand."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from helpers.service_small import created, impression, lived, shown, spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perturank.errors import BadInput
from perturank.service.learner.checkpoint import load
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild, recall_from
from perturank.service.learner.verify import faults
from perturank.service.log import snapshots
from perturank.service.log.group_commit import Committer
from perturank.service.log.records import Snapshot, new_id
from perturank.service.log.refusals import LogFull
from perturank.service.log.sql import SqlTransaction
from perturank.service.log.sqlite import WAL_BYTES, SqliteLog


def test_a_full_disk_refuses_keeps_what_was_acknowledged_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    log = SqliteLog(small_disk / "log.db")
    committer = Committer(log)
    ballast = small_disk / "ballast"
    ballast.write_bytes(os.urandom(1_200_000))
    large = impression(ids=[f"{place}{'-' * 2000}" for place in range(4)])  # so that few commits fill the disk
    acknowledged: list[bytes] = []

    def show() -> None:
        name = new_id(log.tail())
        committer.submit(lambda transaction: transaction.append("m", large, name)).result()
        acknowledged.append(name)

    def fill() -> None:
        for _ in range(20_000):
            show()

    with pytest.raises(LogFull, match="make room"):
        fill()
    assert acknowledged
    assert [record.impression for record in log.read()] == acknowledged
    ballast.unlink()
    show()
    assert [record.impression for record in log.read()] == acknowledged
    assert list(faults(log)) == []
    committer.close()
    log.close()


def test_a_process_killed_at_any_moment_of_a_checkpoint_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from perturank.service.log.records import Pinned\n"
        "from perturank.service.log.sqlite import SqliteLog\n"
        "log = SqliteLog(pathlib.Path(sys.argv[1]))\n"
        "while True:\n"
        "    with log.transaction() as transaction:\n"
        "        position = transaction.append('m', Pinned(1))\n"
        "        transaction.store('x', position.to_bytes(1_000_000, 'big'))\n"  # four commits fill the -wal file
        "    print(position, flush=True)\n"
    )
    path, last = tmp_path / "log.db", 0
    for n in (30, 31, 32, 33):
        child = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(n):
            next(child.stdout)
        child.kill()
        said = n + sum(line.endswith("\n") for line in child.stdout)
        child.wait()
        with closing(SqliteLog(path)) as log:
            assert last + said <= log.tail() <= last + said + 1  # one may have been committed and not said
            last = log.tail()
            assert [record.position for record in log.read()] == list(range(1, last + 1))
            assert log.stored("x") == last.to_bytes(1_000_000, "big")
            assert log.damage() == []


class Noting(SqliteLog):
    """Notes after every commit how long the -wal file is and where the log ends."""

    commits: list[tuple[int, int]]

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction[sqlite3.Connection]]:
        with super().transaction() as transaction:
            yield transaction
        self.commits.append((self.path.with_name("log.db-wal").stat().st_size, self.tail()))


@pytest.fixture(scope="module")
def lived_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Noting]:
    path = tmp_path_factory.mktemp("lived") / "log.db"
    log = Noting(path)
    log.commits = [(0, 0), (path.with_name("log.db-wal").stat().st_size, 0)]
    created(log)
    learner = Learner(log)
    for turn in range(3):
        lived(log, spec(), 2, 5 * turn)
        learner.step()
    learner.close()
    yield log
    log.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_wal_file_torn_at_any_byte_opens_at_the_last_whole_transaction(
    lived_log: Noting, tmp_path: Path, data: st.DataObject
) -> None:
    wal = lived_log.path.with_name("log.db-wal").read_bytes()
    ends = [end for end, _ in lived_log.commits]
    near = st.sampled_from(ends).map(lambda end: min(end + 1, len(wal)))
    n = data.draw(st.one_of(st.integers(0, len(wal)), st.sampled_from(ends), near))
    _, tail = max(commit for commit in lived_log.commits if commit[0] <= n)
    path = Path(tempfile.mkdtemp(dir=tmp_path)) / "log.db"
    shutil.copy(lived_log.path, path)
    path.with_name("log.db-wal").write_bytes(wal[:n])
    with closing(SqliteLog(path)) as log:
        assert log.tail() == tail
        assert [each.impression for each in log.read()] == [each.impression for each in lived_log.read(0, tail)]
        assert list(faults(log)) == []
        versions = [record.entry.version for record in log.control_records() if isinstance(record.entry, Snapshot)]
        assert snapshots.versions(log, "m") == versions  # none is ahead of the log
        state = load(log, "m", recall_from(log), snapshots.state_name("m"))
        assert state is None or state.at <= tail


def test_what_is_left_of_a_torn_log_is_learned_to_the_same_bits(lived_log: Noting, tmp_path: Path) -> None:
    wal = lived_log.path.with_name("log.db-wal").read_bytes()
    shutil.copy(lived_log.path, tmp_path / "log.db")
    (tmp_path / "log.db-wal").write_bytes(wal[: len(wal) * 2 // 3])
    log = SqliteLog(tmp_path / "log.db")
    learner = Learner(log)
    learner.step()
    assert rebuild(log, "m").differs is None
    assert rebuild(log, "m").checked > 0
    log.close()


def damaged_faults(path: Path) -> list[str]:
    """Return what is reported of a log that somebody has damaged, where it opens at all."""
    try:
        with closing(SqliteLog(path)) as log:
            return list(faults(log))
    except BadInput as refusal:
        return [str(refusal)]


def test_a_page_that_was_overwritten_is_reported(lived_log: Noting, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with closing(lived_log.connect()) as connection, closing(sqlite3.connect(path)) as copy:
        connection.backup(copy)
    assert damaged_faults(path) == []
    content = path.read_bytes()
    middle = len(content) // 4096 // 2 * 4096
    path.write_bytes(content[:middle] + bytes([255]) * 4096 + content[middle + 4096 :])
    assert damaged_faults(path)


def test_an_older_copy_of_the_log_beside_a_later_wal_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    created(log)
    assert not log.give_back()  # everything is in the file
    older = path.read_bytes()
    lived(log, spec(), 50)
    assert not log.give_back()
    lived(log, spec(), 3, 50)
    for end in ("", "-wal"):
        shutil.copy(tmp_path / f"log.db{end}", tmp_path / f"other.db{end}")
    assert damaged_faults(tmp_path / "other.db") == []
    shutil.copy(tmp_path / "log.db-wal", tmp_path / "older.db-wal")
    (tmp_path / "older.db").write_bytes(older)
    assert damaged_faults(tmp_path / "older.db")
    log.close()


def test_the_copy_that_an_earlier_version_left_in_a_crash_is_removed(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    shown(log)
    for end in ("", "-wal", "-merging"):
        shutil.copy(tmp_path / f"log.db{end.replace('merging', 'wal')}", tmp_path / f"left.db{end}")
    log.close()
    with closing(SqliteLog(tmp_path / "left.db")) as left:
        assert left.tail() == 1
        assert not (tmp_path / "left.db-merging").exists()


def test_a_wal_file_that_is_shorter_than_the_copy_of_an_earlier_version_is_refused_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    log = SqliteLog(tmp_path / "log.db")
    shown(log)
    wal = (tmp_path / "log.db-wal").read_bytes()
    shutil.copy(tmp_path / "log.db", tmp_path / "left.db")
    log.close()
    (tmp_path / "left.db-merging").write_bytes(wal)
    (tmp_path / "left.db-wal").write_bytes(wal[:-1])
    with pytest.raises(BadInput, match=r"left.db-wal is shorter than left.db-merging.* open the log with that version"):
        SqliteLog(tmp_path / "left.db")
    assert (tmp_path / "left.db-merging").read_bytes() == wal
    assert (tmp_path / "left.db-wal").read_bytes() == wal[:-1]


def test_the_wal_file_is_cut_back_after_a_long_reader_has_left(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")

    def n_wal_bytes(n: int) -> int:
        for _ in range(n):
            with log.transaction() as transaction:
                transaction.store("x", os.urandom(4 << 20))
        return (tmp_path / "log.db-wal").stat().st_size

    with closing(log.connect()) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log").fetchall()
        assert n_wal_bytes(10) > 2 * WAL_BYTES
    assert n_wal_bytes(3) <= WAL_BYTES
    log.close()
