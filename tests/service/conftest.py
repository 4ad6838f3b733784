from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from database import Database, binaries

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
