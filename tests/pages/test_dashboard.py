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
        expect(page.get_by_role("heading", level=2).first).to_have_text("Quality over time: m")
        for title in (
            "Reciprocal rank of the first click",
            "Reward per search",
            "Requests a second",
            "Clicks per place",
            "Certain orders",
            "From click to version",
        ):
            figure = page.get_by_role("figure").filter(has_text=title)
            expect(figure.locator("polyline, rect.bar, circle.dot").first).to_be_attached()
        orders = page.get_by_role("region", name="The three orders, in the last three hours").get_by_role("row")
        expect(orders.nth(1)).to_contain_text(re.compile(rf"lists as shownmeasured.*{traffic.n}$"))
        events = page.get_by_role("region", name="Events, since the model was made").get_by_role("row")
        expect(events.nth(1)).to_have_text(f"click{traffic.n}100–")
        expect(page.get_by_label("Alarms")).to_have_text("No alarms.")
        assert seen.errors == []


def quality(lists: int, rank: float, **changes: float) -> dict[str, float]:
    """Return what the service says of an order that it is sure of."""
    errors = {"rank_error": 0.01, "reward_error": 0.01, "coverage": 1.0}
    return {"lists": lists, "rank": rank, "least": rank, "most": rank, "reward": 2 * rank} | errors | changes


SHOWN = quality(1000, 0.5)
UNSURE = quality(1000, 0.5, least=0.2, most=0.8, coverage=0.4)
CASES: list[tuple[dict[str, dict[str, float]], float, list[str], str]] = [
    (
        {"best": quality(900, 0.55), "own": UNSURE},
        0.05,
        ["lists as shownmeasured0.500 ± 0.02011,000", "best estimateestimated0.550 ± 0.0201.10900"],
        "Positive: the lists as shown earned less than the best estimate would have.",
    ),
    (
        {"best": quality(900, 0.45), "own": UNSURE, "shadow": quality(100, 0.4)},
        -0.05,
        ["your own ordermeasured0.400 ± 0.0200.800100"],
        "Negative: the lists as shown earned more than the best estimate would have.",
    ),
    (
        {"best": UNSURE, "own": UNSURE},
        0.05,
        ["best estimateestimated0.180 to 0.820–1,000", "your own orderestimated0.180 to 0.820–1,000"],
        "Cannot be told from 900 searches: too few lists agree with the best estimate so far.",
    ),
    ({"best": quality(20, 0.5)}, 0.001, ["best estimateestimatedtoo few–20", "your own ordernot known yet––0"], ""),
]


@pytest.mark.parametrize("qualities, cost, rows, sentence", CASES, ids=["positive", "negative", "unsure", "few"])
def test_quality_is_told_as_far_as_it_is_known_and_the_sign_of_the_cost_is_explained(
    qualities: dict[str, dict[str, float]],
    cost: float,
    rows: list[str],
    sentence: str,
    serving: Serving,
    traffic: Traffic,
    browser: Browser,
) -> None:
    def changed(route: Route) -> None:
        answer = route.fetch()
        (*_, bucket) = answer.json()["buckets"]
        price = {"lists": 900, "shown": 0.5, "best": 0.5 + cost, "error": 0.001, "cost": cost}
        told = bucket | {"quality": {"shown": SHOWN, "learn": SHOWN} | qualities, "exploration": price}
        route.fulfill(response=answer, json=answer.json() | {"buckets": [told]})

    with watched(browser) as seen:
        seen.page.route("**/history?span=hours", changed)
        page = opened(seen, serving)
        page.get_by_label("a month").check()
        region = page.get_by_role("region", name="The three orders, in the last month")
        for row in rows:
            expect(region.get_by_role("row").filter(has_text=re.compile(f"^{re.escape(row)}$"))).to_be_visible()
        expect(page.locator(".cost")).to_contain_text(sentence)
        hint = page.get_by_text('send a share of your searches with "mode": "shadow"')
        expect(hint).to_have_count(1 if "own" in qualities and "shadow" not in qualities else 0)
        assert seen.errors == []


def test_a_paused_page_stands_still_until_it_is_resumed(serving: Serving, traffic: Traffic, browser: Browser) -> None:
    with watched(browser) as seen:
        page = opened(seen, serving)
        clicks = page.get_by_role("row", name=re.compile("m p2linrank")).get_by_role("cell").nth(5)
        expect(clicks).to_have_text(str(traffic.n))
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("status").first).to_have_text("paused")
        before = traffic.n
        traffic.click()
        page.wait_for_timeout(1500)  # a moment comes every second
        expect(clicks).to_have_text(str(before))
        page.get_by_role("button", name="Look into it").click()
        expect(page.get_by_text(re.compile(r"lists? in 100 draws"))).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        expect(clicks).to_have_text(str(traffic.n))
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
        expect(page.get_by_text("document 'a' has 1 feature")).to_be_visible()


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
