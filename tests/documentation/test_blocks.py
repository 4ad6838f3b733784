"""Every code block of the README and of the documentation runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from documentation.imitations import write_imitations
from documentation.running import DATABASE, Reader
from helpers.database import Database, binaries
from helpers.fenced import ROOT, blocks, pages
from helpers.serving import Serving

SERVING = re.compile(r"^perturank serve", re.M)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home folder with data."""
    folder = tmp_path_factory.mktemp("home")
    write_imitations(folder / "data")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Start one service for all pages that start one with its defaults; they work in its folder."""
    started = Serving(tmp_path_factory.mktemp("served")).ready()
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Start a service whose log is in PostgreSQL."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed: scripts/make-postgres installs it")
    database = Database()
    started = Serving(tmp_path_factory.mktemp("served"), database.url("postgres")).ready()
    yield started
    assert started.stop() == 0
    database.close()


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_the_page_runs(page: Path, home: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    markdown, started = page.read_text(encoding="utf-8"), None
    if re.search(r"^curl ", markdown, re.M) and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    if DATABASE in markdown:
        started = request.getfixturevalue("on_postgres")
    elif SERVING.search(markdown):
        started = request.getfixturevalue("server")
    reader = Reader(tmp_path if started is None else started.folder, home, started)
    for block in blocks(page):
        reader.follow(block)


@pytest.mark.parametrize(
    "markdown",
    [
        "```\nls\n```\n",
        "```cobol\nDISPLAY 1.\n```\n",
        "```sh\nfalse\n```\n",
        "```python\nraise ValueError\n```\n",
        "```json\n{,}\n```\n",
        "```sh\necho 1\n```\n<!-- output -->\n```text\n2\n```\n",
        "<!-- run as: true -->\n```sh\nperturank simulate --no-such-option\n```\n",
        "- a list\n\n    ```sh\n    false\n    ```\n",
    ],
)
def test_a_block_that_is_wrong_or_cannot_be_run_is_found(markdown: str, tmp_path: Path) -> None:
    reader = Reader(tmp_path, tmp_path)
    *before, wrong = blocks(Path("made-up.md"), markdown)
    for block in before:
        reader.follow(block)
    with pytest.raises(Exception, match=r"made-up|^$|No such option|Expecting"):
        reader.follow(wrong)


def test_the_readmes_first_program_is_short() -> None:
    program = next(block.text for block in blocks(ROOT / "README.md") if block.language == "python")
    assert len([line for line in program.splitlines() if line.strip()]) <= 15
