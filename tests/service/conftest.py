from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from database import Database, binaries

from perturank.service.log import Log
from perturank.service.log.sqlite import SqliteLog


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed: scripts/make-postgres installs it")
    server = Database()
    yield server
    server.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = SqliteLog(tmp_path / "log.db")
    yield opened
    opened.close()
