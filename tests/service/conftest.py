from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.database import Database, binaries

from perturank.service.log import Log
from perturank.service.log.postgres import PostgresLog
from perturank.service.log.sqlite import SqliteLog


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed: scripts/make-postgres installs it")
    server = Database()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """Return a log of each kind."""
    opened: Log
    if request.param == "sqlite":
        opened = SqliteLog(tmp_path / "either.db")
    else:
        opened = PostgresLog(request.getfixturevalue("database").fresh())
    yield opened
    opened.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = SqliteLog(tmp_path / "log.db")
    yield opened
    opened.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small disk can only be mounted by root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)  # a test that failed may still have it open
