from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import chromium
from playwright.sync_api import Browser


@pytest.fixture(scope="module")  # Playwright's event loop runs as long as the browser: others need one of their own
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started
