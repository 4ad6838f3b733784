from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from perturank.service.http.app import application
from perturank.service.log.sqlite import SqliteLog
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    log = SqliteLog(tmp_path / "log.db")
    made = Service(log, ServeSettings(max_documents=16, max_batch=5, body_bytes=20_000))
    yield made
    made.close()
    log.close()


@pytest.fixture
def http(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Start the application, without the samples that it takes by itself now and then."""
    monkeypatch.setattr("perturank.service.http.background.SECONDS_BETWEEN_SAMPLES", 1e9)
    with TestClient(application(service), base_url="http://127.0.0.1") as client:
        yield client
