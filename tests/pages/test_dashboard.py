"""The dashboard in a real browser, in front of a real service that learns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np
import pytest
from browser import Watched, watched
from playwright.sync_api import Browser, Page, expect
from serving import SPEC, Serving, run

TAG = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"
N_DOCUMENTS = 8
N_FEATURES = 5


class Traffic:
    """Somebody who searches and clicks."""

    def __init__(self, serving: Serving, key: str | None = None) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self.http = httpx.Client(base_url=serving.url, headers=headers, timeout=120)
        self.n = 0

    def put(self) -> None:
        """Make the model."""
        self.http.put("/v1/models/m", json=SPEC).raise_for_status()

    def click(self, times: int = 1) -> None:
        """Ask for lists and click the first document of each."""
        for _ in range(times):
            self.n += 1
            asked = {"documents": documents(self.n), "query": f"red shoes {TAG}"}
            shown = self.http.post("/v1/models/m/rank", json=asked).raise_for_status().json()
            said = {"impression": shown["impression"], "clicks": [shown["ranking"][0]["id"]], "final": True}
            self.http.post("/v1/models/m/feedback", json=said).raise_for_status()


def documents(seed: int) -> list[dict[str, Any]]:
    rows = np.random.default_rng(seed).uniform(-1, 1, (N_DOCUMENTS, N_FEATURES))
    return [{"id": f"{TAG if i == 0 else 'document'} {i}", "features": row.tolist()} for i, row in enumerate(rows)]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    started = Serving(tmp_path_factory.mktemp("dashboard"))
    yield started
    started.kill()


@pytest.fixture(scope="module")
def traffic(serving: Serving) -> Traffic:
    someone = Traffic(serving.ready())
    someone.put()
    serving.ready()
    someone.click(12)
    serving.until(lambda: someone.http.get("/v1/models/m").json()["version"] > 0)
    return someone


def opened(seen: Watched, serving: Serving) -> Page:
    """Open the dashboard and wait until it is live."""
    seen.page.goto(serving.url)
    expect(seen.page.get_by_role("status").first).to_have_text("live")
    expect(seen.page.get_by_role("row", name=re.compile("m p2linrank"))).to_be_visible()
    return seen.page


def test_it_draws_and_goes_on_while_clicks_come(serving: Serving, traffic: Traffic, browser: Browser) -> None:
    with watched(browser) as seen:
        page = opened(seen, serving)
        cells = page.get_by_role("row", name=re.compile("m p2linrank")).get_by_role("cell")
        before = int(cells.nth(5).inner_text())
        assert before == traffic.n
        version = int(cells.nth(1).inner_text())
        traffic.click(5)
        expect(cells.nth(5)).to_have_text(str(before + 5))
        expect(cells.nth(1)).not_to_have_text(str(version))
        for title in ("Requests a second", "Clicks per place", "Certain orders", "From click to version", "Cost of"):
            figure = page.get_by_role("figure").filter(has_text=title)
            expect(figure.locator("polyline, rect.bar, circle.dot").first).to_be_attached()
        expect(page.get_by_text(re.compile(r"Over \d+ lists exploration cost"))).to_be_visible()
        expect(page.get_by_label("Alarms")).to_have_text("No alarms.")
        assert seen.errors == []


def test_a_table_stands_behind_every_chart(serving: Serving, traffic: Traffic, browser: Browser) -> None:
    with watched(browser) as seen:
        page = opened(seen, serving)
        figure = page.get_by_role("figure").filter(has_text="Clicks per place")
        figure.get_by_text("As a table").click()
        first = figure.get_by_role("row").nth(1).get_by_role("cell")
        expect(first.nth(1)).to_have_text(str(traffic.n))
        expect(first.nth(0)).to_have_text("100 %")


def test_a_recent_query_is_looked_into_and_its_text_stays_text(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    with watched(browser) as seen:
        page = opened(seen, serving)
        expect(page.get_by_label("A recent query").locator("option").first).to_contain_text(f"red shoes {TAG}")
        page.get_by_role("button", name="Look into it").click()
        places = page.get_by_role("region", name="The best estimate, place by place")
        expect(places.get_by_role("row")).to_have_count(1 + int(str(SPEC["places"])))
        draws = page.get_by_role("region", name=re.compile("How often each document stands"))
        counts = [int(text) for text in draws.locator("td").all_inner_texts() if text]
        assert sum(counts) == 100 * int(str(SPEC["places"]))
        expect(page.get_by_role("figure").filter(has_text="Certain orders, as layers").locator("rect")).to_have_count(8)
        page.get_by_text("As a list").click()
        expect(page.get_by_role("listitem").filter(has_text=TAG)).to_be_visible()
        assert page.title() == "perturank"
        assert page.locator("main script, main img").count() == 0
        assert seen.errors == []


def test_pasted_documents_are_looked_into_with_the_keyboard_alone(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    with watched(browser) as seen:
        page = opened(seen, serving)
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="To the content")).to_be_focused()
        page.get_by_label("or documents").focus()
        page.keyboard.insert_text(json.dumps({"documents": documents(99)}))
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_text(re.compile(r"lists? in 100 draws"))).to_be_visible()
        page.get_by_label("or documents").fill("[{]")
        page.get_by_role("button", name="Look into it").click()
        expect(page.get_by_text("This is no JSON")).to_be_visible()
        page.get_by_label("or documents").fill('[{"id": "a", "features": [1]}]')
        page.get_by_role("button", name="Look into it").click()
        expect(page.get_by_text("document 'a' has 1 features")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_for_everybody(
    width: int,
    scheme: Literal["light", "dark"],
    serving: Serving,
    traffic: Traffic,
    browser: Browser,
    record_property: Any,
    tmp_path: Path,
) -> None:
    with watched(browser, width=width, scheme=scheme) as seen:
        page = opened(seen, serving)
        expect(page.get_by_label("A recent query").locator("option").first).to_contain_text("red shoes")
        page.get_by_role("button", name="Look into it").click()
        expect(page.get_by_text(re.compile(r"lists? in 100 draws"))).to_be_visible()
        page.screenshot(path=tmp_path / f"dashboard-{width}-{scheme}.png", full_page=True)
        assert seen.faults() == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        record_property("first_paint_ms", seen.first_paint())


def test_a_visit_weighs_less_than_half_a_megabyte(
    serving: Serving, traffic: Traffic, browser: Browser, record_property: Any
) -> None:
    with watched(browser) as seen:
        opened(seen, serving)
        seen.page.wait_for_timeout(500)
        assert any(address.endswith(".js") for address in seen.weights)
        assert all(address.startswith(serving.url) for address in seen.weights)
        record_property("bytes", sum(seen.weights.values()))
        assert sum(seen.weights.values()) < 500_000


def test_a_key_is_asked_for_where_there_are_keys(tmp_path: Path, browser: Browser) -> None:
    made = run("keys", "add", "watcher", "--scope", "admin", "--keys", str(tmp_path / "keys"))
    key = made.stdout.split()[-1]
    assert key.startswith("pr_"), made.stderr
    kept = Serving(tmp_path, PERTURANK_KEYS=str(tmp_path / "keys"))
    try:
        someone = Traffic(kept.ready(), key)
        someone.put()
        with watched(browser) as seen:
            page = seen.page
            page.goto(kept.url)
            page.get_by_label("API key").fill("pr_wrong")
            page.keyboard.press("Enter")
            expect(page.get_by_role("alert")).to_contain_text("not known here")
            assert page.get_by_role("row", name=re.compile("m p2linrank")).count() == 0
            page.get_by_label("API key").fill(key)
            page.keyboard.press("Enter")
            expect(page.get_by_role("row", name=re.compile("m p2linrank"))).to_be_visible()
            assert page.evaluate("localStorage.length") == 0
            page.reload()
            expect(page.get_by_role("row", name=re.compile("m p2linrank"))).to_be_visible()
    finally:
        kept.kill()


def test_it_says_when_the_service_has_gone_and_comes_back(tmp_path: Path, browser: Browser) -> None:
    first = Serving(tmp_path).ready()
    port = int(first.url.rpartition(":")[2].strip("/"))
    with watched(browser) as seen:
        seen.page.goto(first.url)
        state = seen.page.get_by_role("status").first
        expect(state).to_have_text("live")
        assert first.stop() == 0
        expect(state).to_contain_text("not live")
        again = Serving(tmp_path, port=port)
        try:
            expect(state).to_have_text("live")
        finally:
            again.kill()


def test_the_documentation_keeps_its_style_under_its_policy(serving: Serving, browser: Browser) -> None:
    with watched(browser) as seen:
        seen.page.goto(f"{serving.ready().url}/docs")
        assert seen.page.evaluate("getComputedStyle(document.body).maxWidth") != "none"
        assert [error for error in seen.errors if "favicon" not in error and "404" not in error] == []
