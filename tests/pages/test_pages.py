"""The built pages are those of the sources, and are served so that nothing in them can be turned against the reader."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from perturank import pages

ROOT = Path(__file__).parent.parent.parent
WEB = ROOT / "web"
STATIC = ROOT / "src" / "perturank" / "pages" / "static"
NOT_BUILT = {"node_modules", "README.md"}
PAGES = sorted(path.stem for path in WEB.glob("*.html"))


@pytest.fixture
def http() -> TestClient:
    return TestClient(Starlette(routes=[*(pages.page(f"/{name}", name) for name in PAGES), pages.assets()]))


def digests(folder: Path, passed: set[str]) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    named = {path.relative_to(folder): path for path in files}
    return {
        name.as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in named.items()
        if name.parts[0] not in passed
    }


def test_the_pages_were_built_from_the_sources_as_they_are() -> None:
    manifest = json.loads((STATIC / "manifest.json").read_text())
    assert manifest["sources"] == digests(WEB, NOT_BUILT), "web/ has changed since: make web"
    assert manifest["files"] == digests(STATIC, {"manifest.json"}), "built files were changed by hand: make web"


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (WEB / "package-lock.json").read_text()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_nothing_inline_and_asks_nobody_else(name: str, http: TestClient) -> None:
    text = http.get(f"/{name}").text
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text) == []
    addresses = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert addresses
    assert all(address.startswith("/static/") for address in addresses)
    for address in addresses:
        assert http.get(address).status_code == 200


@pytest.mark.parametrize("name", PAGES)
def test_a_page_weighs_less_than_half_a_megabyte(name: str, http: TestClient) -> None:
    text = http.get(f"/{name}").text
    scripts = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert len(text) + sum(len(http.get(address).content) for address in scripts) < 500_000


def test_every_answer_forbids_what_a_page_does_not_need(http: TestClient) -> None:
    for path in (f"/{PAGES[0]}", "/static/dashboard.html", "/static/no-such-file"):
        headers = http.get(path).headers
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_assets_are_kept_for_ever_and_pages_looked_at_again(http: TestClient) -> None:
    page = http.get("/dashboard")
    assert page.headers["cache-control"] == "no-cache"
    assert http.get("/dashboard", headers={"if-none-match": page.headers["etag"]}).status_code == 304
    script = next(address for address in re.findall(r'"(/static/[^"]*)"', page.text) if address.endswith(".js"))
    assert "immutable" in http.get(script).headers["cache-control"]


@pytest.mark.parametrize("name", ["../__init__.py", "..%2f__init__.py", "manifest.json", "/etc/passwd", ""])
def test_only_built_files_are_served(name: str, http: TestClient) -> None:
    assert http.get(f"/static/{name}").status_code == 404
