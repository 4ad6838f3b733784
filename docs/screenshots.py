"""The pictures of the pages, from real runs: `python docs/screenshots.py` writes all, or those of the runs it is given.

`play` writes play, dashboard and inspector.png: `perturank play` in a process of its own, 2,000 simulated searches at
ten a second, PDGD beside for the last 700; the dashboard while they come, the game after a click that moved a document.
It takes four minutes. `evidence` writes shadow and live-test.png: the shop of `make bench-shop`, seven minutes in
shadow mode and two in a live test.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from benchmarks.shop import FEATURES, PLACES, Customers, Shop
from perturank import Client
from perturank.wire.specification import Mode

IMAGES = Path(__file__).parent / "images"
SEARCHES, RATE, BESIDE_FROM = 2000, 10, 1300
LOOK_AT = SEARCHES - 60  # searches after which the dashboard is taken
WANTED = {
    "copy a file": "shutil.copyfile",
    "join path components": "os.path.join",
    "current working directory": "os.getcwd",
    "sort a list": "builtins.sorted",
    "parse json text": "json.loads",
    "shuffle list in place": "random.shuffle",
    "remove directory tree": "shutil.rmtree",
    "random integer": "random.randint",
    "absolute value": "builtins.abs",
    "temporary file": "tempfile.TemporaryFile",
    "open a url": "urllib.request.urlopen",
    "read csv rows": "csv.reader",
    "parse arguments": "argparse.ArgumentParser.parse_args",
    "compress bytes": "zlib.compress",
    "current time in seconds": "time.time",
}
CLICKS = 4  # on the same document, at most
INSPECTED = 1000  # pixels: the graph goes on below
MINUTES = 8 * 60_000


SHOP_SEED, SHOP_RATE = 11, 8  # searches a second
SHADOW_SECONDS, TEST_SECONDS = 420, 120


def main() -> None:
    """Take the pictures of the runs that are named, or of all."""
    expect.set_options(timeout=MINUTES)
    for run in sys.argv[1:] or ["play", "evidence"]:
        {"play": play, "evidence": evidence}[run]()


@contextmanager
def started(*words: str) -> Iterator[str]:
    """Run a command of perturank beside the block, and give its address."""
    command = [sys.executable, "-c", "from perturank.cli import main; main()", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://[^/\s]+", process.stdout.readline())
        assert found is not None
        try:
            yield found.group()
        finally:
            process.terminate()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the system's browser beside the block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


def play() -> None:
    """Play, and take the pictures."""
    with started("play", "--simulate", str(SEARCHES), "--rate", str(RATE)) as address:
        take(address)


def evidence() -> None:
    """Listen in shadow mode, test, and take the pictures."""
    with tempfile.TemporaryDirectory() as folder, started("serve", "--log", f"sqlite:///{folder}/shop.db") as address:
        client = Client(address, timeout=120, patience=120)
        client.put_model(
            "shop", n_features=len(FEATURES), features=[{"name": name} for name in FEATURES], places=PLACES, settle=0
        )
        customers = ShopTraffic(client)
        customers.search(SHADOW_SECONDS, mode="shadow")
        with chromium() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(f"{address}/?model=shop")
            expect(page.locator(".shadow polyline").first).to_be_attached()
            keep("shadow", page.locator(".shadow").screenshot())
        client.put_test("shop-beside-today", ["shop", "own"], learns="all", window=2)
        customers.search(TEST_SECONDS, test="shop-beside-today")
        with chromium() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(f"{address}/tests")
            expect(page.locator(".standing polyline").first).to_be_attached()
            keep("live-test", page.screenshot(full_page=True))


class ShopTraffic:
    """Customers of the shop, one after the other."""

    def __init__(self, client: Client) -> None:
        self.client, self.shop, self.turn = client, Shop.of(SHOP_SEED), 0
        self.customers = Customers.of(self.shop, SHOP_SEED, 100_000)

    def search(self, seconds: float, mode: Mode = "learn", test: str | None = None) -> None:
        """Search for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            query, source = int(self.customers.queries[self.turn]), str(self.turn)
            shown = self.client.rank(self.documents(query), model="shop", test=test, mode=mode, source=source)
            order = np.array([int(each) for each in shown.ids])
            clicked = self.customers.clicks(self.turn, self.shop.grades[query], order)
            clicks = [shown.ids[place] for place in np.flatnonzero(clicked)]
            self.client.feedback(shown.impression, clicks, model="shop", test=test, final=True)
            self.turn += 1
            time.sleep(1 / SHOP_RATE)

    def documents(self, query: int) -> list[dict[str, object]]:
        """Return the candidates of a query as they are sent."""
        rows = zip(self.shop.features[query].tolist(), self.shop.engine[query].tolist(), strict=True)
        named = [(dict(zip(FEATURES, row, strict=True)), score) for row, score in rows]
        return [{"id": str(i), "features": row, "prior": score} for i, (row, score) in enumerate(named)]


def take(address: str) -> None:
    """Take every picture of a game that has just begun."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 1040})
        page.goto(f"{address}/play")
        until(page, BESIDE_FROM)
        httpx.put(f"{address}/play/beside", json={"ranker": "pdgd-neural"}, timeout=60).raise_for_status()
        until(page, LOOK_AT)
        watched = browser.new_page(viewport={"width": 1280, "height": 900})
        watched.goto(address)
        dashboard(watched)
        until(page, SEARCHES)
        moved(page)
        page.evaluate("scrollTo(0, 0)")
        keep("play", page.screenshot())


def until(page: Page, searches: int) -> None:
    """Wait until so many known items were searched for."""
    page.wait_for_function(
        "n => Number([...document.querySelectorAll('.tile')].find(each => each.textContent.startsWith('Known items'))"
        "?.querySelector('b').textContent.replace(',', '')) >= n",
        arg=searches,
        timeout=MINUTES,
    )


def dashboard(page: Page) -> None:
    """Take the dashboard without the inspector, and the inspector alone."""
    expect(page.get_by_role("status").first).to_have_text("live")
    expect(page.get_by_role("figure").first.locator("polyline").first).to_be_attached()
    end = page.locator(".inspector").bounding_box()
    assert end is not None
    top = {"x": 0, "y": 0, "width": 1280, "height": end["y"] - 8}
    keep("dashboard", page.screenshot(full_page=True, clip=top))  # type: ignore[arg-type]
    page.get_by_role("button", name="Look into it").click()
    expect(page.get_by_text(re.compile(r"lists? in 100 draws"))).to_be_visible()
    keep("inspector", page.locator(".inspector").screenshot(), INSPECTED)


def moved(page: Page) -> None:
    """Search and click until a click has moved its document up."""
    for query, wanted in WANTED.items():
        page.get_by_label("Search the documentation").fill(query)
        page.keyboard.press("Enter")
        expect(page.locator(".told")).to_contain_text(f"candidates for “{query}”")
        for _ in range(CLICKS):
            button = page.locator(".list").first.get_by_role("button", name=wanted, exact=True)
            if button.count() == 0:
                break  # it was not drawn this time
            effect = page.locator(".effect")
            last = effect.inner_text()
            button.click()
            expect(effect).not_to_have_text(last, use_inner_text=True)
            expect(page.locator(".told")).to_contain_text("Learned: version")
            expect(page.locator(".result.chosen").first).to_be_visible()
            places = [int(place) for place in re.findall(r"place (\d+)", page.locator(".moved").inner_text())]
            shown = int(page.locator(".result.chosen .place").first.inner_text())
            if len(places) == 2 and shown <= places[1] < places[0]:  # and not hidden by exploration
                return
    raise SystemExit("no click has moved a document: run it again")


def keep(name: str, picture: bytes, height: int | None = None) -> None:
    """Write a picture, or its upper part, with as few bytes as its colours allow."""
    whole = Image.open(io.BytesIO(picture)).convert("RGB")
    whole.crop((0, 0, whole.width, min(height or whole.height, whole.height))).save(
        IMAGES / f"{name}.png", optimize=True
    )


if __name__ == "__main__":
    main()
