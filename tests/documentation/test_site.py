"""The documentation as it is built: every page is reached, and no page asks another host for anything."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from helpers.fenced import ROOT, pages

FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the pages with warnings as errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    return folder


class Fetches(HTMLParser):
    """What a page loads by itself."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        address = values.get(FETCHED.get(tag, ""))
        if address and values.get("rel") != "canonical":
            self.found.append(address)


def test_every_page_is_built(site: Path) -> None:
    written = {
        page.relative_to(ROOT / "docs").with_suffix(".html") for page in pages() if ROOT / "docs" in page.parents
    }
    assert written <= {page.relative_to(site) for page in site.rglob("*.html")}


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    fetched = {address for page in site.rglob("*.html") for address in Fetches(page).found}
    assert fetched
    assert [address for address in fetched if "//" in address] == []
    assert "url(http" not in "".join(sheet.read_text() for sheet in site.rglob("*.css"))


def test_what_a_page_fetches_is_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name != "404.html":  # its addresses begin at the root of the host
            for address in Fetches(page).found:
                assert (page.parent / address.partition("#")[0].partition("?")[0]).exists(), (page.name, address)


def test_examples_in_docstrings_are_shown_as_code(site: Path) -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    assert '<span class="gp">&gt;&gt;&gt; </span>' in shown
    assert "<blockquote>" not in shown
