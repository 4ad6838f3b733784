"""Damage from outside: a full disk, a -wal file that was cut."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_small import created, impression, lived, shown, spec

from perturank.service import snapshots
from perturank.service.entries import Snapshot
from perturank.service.learner import Learner
from perturank.service.log.committing import Committer
from perturank.service.log.sqlite import SqliteLog
from perturank.service.log.wal import n_unfinished_bytes
from perturank.service.refusals import LogFull
from perturank.service.replaying import rebuilt
from perturank.service.sealing import fresh
from perturank.service.verifying import faults


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small disk can only be mounted by root")
    yield folder
    subprocess.run(["umount", folder], check=True)


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


def test_a_wal_cut_at_any_byte_opens_at_the_last_whole_transaction(tmp_path: Path) -> None:
    original = SqliteLog(tmp_path / "log.db")
    created(original)
    learner = Learner(original)
    for turn in range(3):
        lived(original, spec(), 2, 5 * turn)
        learner.step()
    names = [record.impression for record in original.read()]
    wal = (tmp_path / "log.db-wal").read_bytes()
    assert n_unfinished_bytes(tmp_path / "log.db") == 0
    lengths = [*range(0, len(wal), len(wal) // 40), len(wal) - 1, len(wal)]
    tails = []
    for n in lengths:
        folder = tmp_path / str(n)
        folder.mkdir()
        shutil.copy(tmp_path / "log.db", folder / "log.db")
        (folder / "log.db-wal").write_bytes(wal[:n])
        unfinished = n_unfinished_bytes(folder / "log.db")
        assert 0 <= unfinished <= n
        log = SqliteLog(folder / "log.db")
        assert list(faults(log)) == []
        assert [record.impression for record in log.read()] == names[: log.tail()]
        versions = [record.entry.version for record in log.rare() if isinstance(record.entry, Snapshot)]
        assert snapshots.versions(log, "m") == versions  # none is ahead of the log
        if versions:
            assert rebuilt(log, "m").differs is None
        tails.append(log.tail())
        log.close()
    assert tails == sorted(tails)
    assert tails[-1] == original.tail()
    original.close()


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
