"""Every test of the log's meaning runs on every kind of log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perturank.service.log import Log
from perturank.service.log.postgres import PostgresLog
from perturank.service.log.sqlite import SqliteLog


@pytest.fixture(params=["sqlite", "postgres"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    opened: Log
    if request.param == "sqlite":
        opened = SqliteLog(tmp_path / "log.db")
    else:
        opened = PostgresLog(request.getfixturevalue("database").fresh())
    yield opened
    opened.close()
