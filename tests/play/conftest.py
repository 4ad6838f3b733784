from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.browser import chromium
from helpers.play_small import DOCUMENTS, Played
from playwright.sync_api import Browser

from perturank.play.search_box import Library


@pytest.fixture(scope="session")
def library() -> Library:
    return Library(DOCUMENTS)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """`perturank play` as a process, with small networks: one for all tests of a file, and at first nobody clicked."""
    game = Played(tmp_path_factory.mktemp("play"))
    yield game
    assert game.stop() == 0


@pytest.fixture(scope="module")  # Playwright's event loop runs as long as the browser: others need one of their own
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started
