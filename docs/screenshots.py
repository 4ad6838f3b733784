"""The pictures of the pages, from a real run: `python docs/screenshots.py` writes play, dashboard and inspector.png.

`perturank play` in a process of its own, 2,000 simulated searches at ten a second, PDGD beside for the last 700; the
dashboard while they come, the game after a click that moved a document. It takes four minutes.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

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


def main() -> None:
    """Play, and take the pictures."""
    command = [sys.executable, "-c", "from perturank.cli import main; main()", "play", "--port", "0"]
    options = ["--simulate", str(SEARCHES), "--rate", str(RATE)]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as game:
        assert game.stdout is not None
        found = re.search(r"http://[^/\s]+", game.stdout.readline())
        assert found is not None
        try:
            take(found.group())
        finally:
            game.terminate()


def take(address: str) -> None:
    """Take every picture of a game that has just begun."""
    expect.set_options(timeout=MINUTES)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
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
        browser.close()


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
