from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.browser import chromium
from helpers.dashboard import Traffic
from helpers.serving import Serving
from playwright.sync_api import Browser


@pytest.fixture(scope="module")  # Playwright's event loop runs as long as the browser: others need one of their own
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    started = Serving(tmp_path_factory.mktemp("dashboard"))
    yield started
    started.kill()


@pytest.fixture(scope="session")
def traffic(serving: Serving) -> Traffic:
    someone = Traffic(serving.ready())
    someone.put()
    serving.ready()
    someone.click(12)
    serving.until(lambda: someone.http.get("/v1/models/m").json()["version"] > 0)
    return someone
