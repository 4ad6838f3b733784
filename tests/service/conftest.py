from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perturank.service.log import Log
from perturank.service.log.sqlite import SqliteLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = SqliteLog(tmp_path / "log.db")
    yield opened
    opened.close()
