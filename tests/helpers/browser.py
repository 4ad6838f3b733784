"""A real Chromium, the system's own, driven by Playwright; everything that a page does wrong is kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
GRAVE = ("serious", "critical")
MILLISECONDS = 60_000  # on however busy a machine

expect.set_options(timeout=MILLISECONDS)


def executable() -> str | None:
    """Return the system's Chromium."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser beside the block; where there is none the test is skipped."""
    path = executable()
    if path is None:
        pytest.skip("Chromium is not installed: scripts/make-chromium installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(QUIET), timeout=180_000)
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page with what went wrong in it, and how many bytes came over the wire for each address."""

    page: Page
    errors: list[str] = field(default_factory=list)
    weights: dict[str, int] = field(default_factory=dict)

    def faults(self) -> list[str]:
        """Return the grave faults that axe-core finds, each with where it is."""
        found: list[dict[str, Any]] = Axe().run(self.page).response["violations"]
        return [
            f"{fault['id']}: {node['target']} {node.get('failureSummary', '')}"
            for fault in found
            if fault["impact"] in GRAVE
            for node in fault["nodes"]
        ]

    def first_paint(self) -> float:
        """Return the milliseconds from the request to the first content."""
        ask = "performance.getEntriesByName('first-contentful-paint').map(each => each.startTime)[0] ?? -1"
        return float(self.page.evaluate(ask))


@contextmanager
def watched(
    browser: Browser, *, width: int = 1280, height: int = 900, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Watched]:
    """Open an empty page beside the block."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(MILLISECONDS)
    page = context.new_page()
    seen = Watched(page)
    page.on("console", lambda said: seen.errors.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    session = context.new_cdp_session(page)
    addresses: dict[str, str] = {}
    session.on("Network.requestWillBeSent", lambda sent: addresses.update({sent["requestId"]: sent["request"]["url"]}))
    session.on("Network.loadingFinished", lambda done: _weigh(seen, addresses, done))
    session.send("Network.enable")
    yield seen
    context.close()


def _weigh(seen: Watched, addresses: dict[str, str], done: dict[str, Any]) -> None:
    address = addresses.get(done["requestId"], "")
    seen.weights[address] = seen.weights.get(address, 0) + int(done["encodedDataLength"])
