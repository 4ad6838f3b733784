"""Every test of the log's meaning runs on every kind of log."""

from __future__ import annotations

import pytest

from perturank.service.log import Log


@pytest.fixture
def log(either: Log) -> Log:
    return either
