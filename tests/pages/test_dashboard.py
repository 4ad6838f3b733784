"""The dashboard in a real browser, in front of a real service that learns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from helpers.browser import watched
from helpers.dashboard import TAG, Traffic, documents, opened
from helpers.serving import SPEC, Serving
from playwright.sync_api import Browser, Route, expect


def test_it_draws_and_goes_on_while_clicks_come(serving: Serving, traffic: Traffic, browser: Browser) -> None:
    with watched(browser) as seen:
        page = opened(seen, serving)
        cells = page.get_by_role("row", name=re.compile("m p2linrank")).get_by_role("cell")
        before = traffic.n
        expect(cells.nth(5)).to_have_text(str(before))
        version = int(cells.nth(1).inner_text())
        traffic.click(5)
        expect(cells.nth(5)).to_have_text(str(before + 5))
        expect(cells.nth(1)).not_to_have_text(str(version))
        for title in ("Requests a second", "Clicks per place", "Certain orders", "From click to version", "Cost of"):
            figure = page.get_by_role("figure").filter(has_text=title)
            expect(figure.locator("polyline, rect.bar, circle.dot").first).to_be_attached()
        expect(page.get_by_text(re.compile(r"over \d+ lists, exploration cost"))).to_be_visible()
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


def test_of_a_query_and_pasted_documents_the_one_that_was_chosen_last_is_looked_into(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    with watched(browser) as seen:
        page = opened(seen, serving)
        recent, pasted = page.get_by_label("A recent query"), page.get_by_label("or documents")
        expect(recent.locator("option").first).to_contain_text("red shoes")
        number = recent.input_value()
        pasted.fill("[{]")
        expect(recent).to_have_value("")
        recent.select_option(number)
        expect(pasted).to_have_value("")
        page.get_by_role("button", name="Look into it").click()
        expect(page.get_by_text(re.compile(r"lists? in 100 draws"))).to_be_visible()


def test_a_graph_that_leaves_documents_out_says_so(serving: Serving, traffic: Traffic, browser: Browser) -> None:
    def of_more(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"documents": 70})

    with watched(browser) as seen:
        seen.page.route("**/explain", of_more)
        page = opened(seen, serving)
        expect(page.get_by_label("A recent query").locator("option").first).to_contain_text("red shoes")
        page.get_by_role("button", name="Look into it").click()
        expect(page.get_by_text("Certain orders, as layers: the best 8 of 70 documents")).to_be_visible()


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


def test_the_documentation_keeps_its_style_under_its_policy_and_leads_back(serving: Serving, browser: Browser) -> None:
    with watched(browser, width=400) as seen:
        seen.page.goto(f"{serving.ready().url}/docs")
        assert seen.page.evaluate("getComputedStyle(document.body).maxWidth") != "none"
        assert seen.page.evaluate("document.documentElement.scrollWidth") == 400
        assert [error for error in seen.errors if "favicon" not in error and "404" not in error] == []
        seen.page.get_by_role("link", name="Dashboard").click()
        expect(seen.page.get_by_role("status").first).to_have_text("live")
