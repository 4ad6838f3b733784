"""Damage from outside: a full disk, a -wal file that was cut."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_small import created, impression, lived, shown, spec

from perturank.service import snapshots
from perturank.service.entries import Snapshot
from perturank.service.learner.checkpoint import load
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild, recall_from
from perturank.service.learner.verify import faults
from perturank.service.log.committing import Committer
from perturank.service.log.sqlite import SqliteLog, SqliteTransaction
from perturank.service.log.wal import HEADER, n_unfinished_bytes
from perturank.service.refusals import LogFull
from perturank.service.sealing import fresh
from perturank.service.starting import report_unfinished


def test_a_full_disk_refuses_keeps_what_was_acknowledged_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    log = SqliteLog(small_disk / "log.db")
    committer = Committer(log)
    ballast = small_disk / "ballast"
    ballast.write_bytes(os.urandom(1_200_000))
    acknowledged: list[bytes] = []

    def show() -> None:
        name = fresh(log.tail())
        committer.submit(lambda transaction: transaction.append("m", impression(), name)).result()
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


def test_a_full_disk_keeps_what_cannot_be_merged_until_there_is_room(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, content = SqliteLog(small_disk / "log.db"), os.urandom(500_000)
    with log.transaction() as transaction:
        transaction.store("x", content)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(log.room() - 4096))
    merge(log)
    assert ["cannot be merged" in record.message for record in caplog.records] == [True]
    assert log.stored("x") == content
    ballast.unlink()
    merge(log)
    assert len(caplog.records) == 1
    assert log.path.stat().st_size > len(content)
    assert log.stored("x") == content
    log.close()


def merge(log: SqliteLog) -> None:
    log._checkpointer._try()


def test_a_process_killed_while_it_merges_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from perturank.service.entries import Pinned\n"
        "from perturank.service.log import checkpointing\n"
        "from perturank.service.log.sqlite import SqliteLog\n"
        "checkpointing.PAGES_TO_MERGE = 5\n"
        "log = SqliteLog(pathlib.Path(sys.argv[1]))\n"
        "while True:\n"
        "    with log.transaction() as transaction:\n"
        "        position = transaction.append('m', Pinned(1))\n"
        "        transaction.store('x', position.to_bytes(20_000, 'big'))\n"
        "    print(position, flush=True)\n"
    )
    path = tmp_path / "log.db"
    child = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(100):
        next(child.stdout)
    child.kill()
    last = 100 + sum(line.endswith("\n") for line in child.stdout)
    child.wait()
    with closing(SqliteLog(path)) as log:
        assert last <= log.tail() <= last + 1  # one may have been committed and not said
        assert [record.position for record in log.read()] == list(range(1, log.tail() + 1))
        assert log.stored("x") == log.tail().to_bytes(20_000, "big")
        assert log._connection().execute("PRAGMA integrity_check").fetchone() == ("ok",)


class Noting(SqliteLog):
    """Notes after every commit how long the -wal file is and where the log ends."""

    commits: list[tuple[int, int]]

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
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


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_wal_cut_at_any_byte_opens_at_the_last_whole_transaction_and_says_so(
    lived_log: Noting, tmp_path: Path, data: st.DataObject, caplog: pytest.LogCaptureFixture
) -> None:
    wal = lived_log.path.with_name("log.db-wal").read_bytes()
    ends = [end for end, _ in lived_log.commits]
    near = st.sampled_from(ends).map(lambda end: min(end + 1, len(wal)))
    n = data.draw(st.one_of(st.integers(0, len(wal)), st.sampled_from(ends), near))
    whole, tail = max(commit for commit in lived_log.commits if commit[0] <= n)
    path = Path(tempfile.mkdtemp(dir=tmp_path)) / "log.db"
    shutil.copy(lived_log.path, path)
    path.with_name("log.db-wal").write_bytes(wal[:n])
    caplog.clear()
    report_unfinished(f"sqlite:///{path}")
    unfinished = n if n < HEADER else n - max(whole, HEADER)
    assert [record.args for record in caplog.records] == ([(unfinished,)] if unfinished else [])
    with closing(SqliteLog(path)) as log:
        assert log.tail() == tail
        assert [each.impression for each in log.read()] == [each.impression for each in lived_log.read(0, tail)]
        assert list(faults(log)) == []
        versions = [record.entry.version for record in log.rare() if isinstance(record.entry, Snapshot)]
        assert snapshots.versions(log, "m") == versions  # none is ahead of the log
        state = load(log, "m", recall_from(log), snapshots.state_name("m"))
        assert state is None or state.at <= tail


def test_what_is_left_of_a_cut_log_is_learned_to_the_same_bits(lived_log: Noting, tmp_path: Path) -> None:
    wal = lived_log.path.with_name("log.db-wal").read_bytes()
    shutil.copy(lived_log.path, tmp_path / "log.db")
    (tmp_path / "log.db-wal").write_bytes(wal[: len(wal) * 2 // 3])
    log = SqliteLog(tmp_path / "log.db")
    learner = Learner(log)
    learner.step()
    assert rebuild(log, "m").differs is None
    assert rebuild(log, "m").checked > 0
    log.close()


def test_an_unfinished_transaction_is_noticed(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    shown(log)
    whole = (tmp_path / "log.db-wal").stat().st_size
    shown(log)
    wal = (tmp_path / "log.db-wal").read_bytes()
    log.close()
    path = tmp_path / "other.db"
    for n in (whole + 10, whole + 24, len(wal) - 1):
        path.with_name("other.db-wal").write_bytes(wal[:n])
        assert n_unfinished_bytes(path) == n - whole
    path.with_name("other.db-wal").write_bytes(wal[:whole])
    assert n_unfinished_bytes(path) == 0
    assert n_unfinished_bytes(tmp_path / "none.db") == 0
