"""The page of live tests in a real browser, in front of a real service: watched, promoted and stopped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from helpers.browser import Watched, watched
from helpers.dashboard import Traffic, documents
from helpers.serving import Serving
from playwright.sync_api import Browser, Page, expect

TEST = "m-beside-own"
WON = 60  # lists after which the model has surely won


def searched(traffic: Traffic, test: str, n: int) -> None:
    """Search n times; whoever searches wants what the caller's own order has last."""
    for seed in range(n):
        found = documents(seed)
        for each in found:
            each["prior"] = -each["features"][0]
        shown = traffic.http.post(f"/v1/tests/{test}/rank", json={"documents": found}).raise_for_status().json()
        wants = {each["id"]: each["features"][0] for each in found}
        best = max((each["id"] for each in shown["ranking"]), key=lambda name: wants[name])
        said = {"impression": shown["impression"], "clicks": [best], "final": True}
        traffic.http.post(f"/v1/tests/{test}/feedback", json=said).raise_for_status()


def begun(traffic: Traffic, serving: Serving, test: str, n: int = WON) -> None:
    """Begin a test, and let n lists of it count."""
    spec = {"arms": ["m", "own"], "learns": "none", "window": 0.1, "level": 0.2}
    traffic.http.put(f"/v1/tests/{test}", json=spec).raise_for_status()
    serving.ready()
    searched(traffic, test, n)
    serving.until(lambda: traffic.http.get(f"/v1/tests/{test}").json()["lists"] >= n)


@pytest.fixture(scope="module")
def won(serving: Serving, traffic: Traffic) -> dict[str, Any]:
    """Return the standing of a test that the model has won."""
    begun(traffic, serving, TEST)
    found: dict[str, Any] = traffic.http.get(f"/v1/tests/{TEST}").json()
    assert found["winner"] is not None
    return found


def opened(seen: Watched, serving: Serving, test: str = TEST) -> Page:
    """Open the page of live tests, at one of them."""
    seen.page.goto(f"{serving.url}/tests?test={test}")
    expect(seen.page.get_by_role("status").first).to_have_text("live")
    expect(seen.page.get_by_role("heading", name=test, exact=True)).to_be_visible()
    return seen.page


def test_it_says_who_has_won_by_how_much_and_how_surely(
    serving: Serving, won: dict[str, Any], browser: Browser
) -> None:
    with watched(browser) as seen:
        page = opened(seen, serving)
        (pair,) = won["comparisons"]
        ahead = abs(pair["difference"])
        values = page.locator(".standing .tile .value")
        loser = next(arm for arm in ("m", "own") if arm != won["winner"])
        expect(values.nth(0)).to_have_text(f"{won['winner']} has won")
        expect(values.nth(1)).to_have_text(re.compile(rf"^\+{ahead:.3f} a list over {loser}$"))
        expect(values.nth(2)).to_have_text(re.compile(r"^(over )?\d+(\.\d+)? %$"))
        expect(values.nth(3)).to_have_text("decided")
        arms = page.get_by_role("region", name="Arms, in this period").get_by_role("row")
        expect(arms).to_have_count(3)
        expect(arms.nth(2)).to_contain_text("own")
        periods = page.get_by_role("region", name="Periods").get_by_role("row")
        expect(periods.nth(1)).to_contain_text(re.compile(rf"^1.*{won['lists']}{won['winner']}{won['winner']}$"))
        chart = page.get_by_role("figure")
        expect(chart.locator("polyline.trace, circle.dot")).to_have_count(1)
        expect(chart.locator("polygon.band")).to_have_count(1)
        chart.get_by_text("As a table").click()
        expect(chart.get_by_role("row").last.get_by_role("cell").last).to_have_text(str(won["lists"]))
        assert seen.errors == []
        assert all(address.startswith(serving.url) for address in seen.weights)


def test_a_test_goes_on_while_it_is_looked_at_and_is_stopped_after_a_question(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    begun(traffic, serving, "goes-on", 2)
    with watched(browser) as seen:
        page = opened(seen, serving, "goes-on")
        expect(page.get_by_text("2 lists counted in period 1.")).to_be_visible()
        searched(traffic, "goes-on", 3)
        expect(page.get_by_text("5 lists counted in period 1.")).to_be_visible()
        page.get_by_role("button", name="Stop …").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
        assert seen.faults() == []
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert traffic.http.get("/v1/tests/goes-on").json()["status"] == "running"
        page.get_by_role("button", name="Stop …").click()
        page.get_by_role("button", name="Stop it").click()
        expect(page.get_by_text("goes-on is stopped.")).to_be_visible()
        expect(page.get_by_role("button", name="Stop …")).to_have_count(0)
        assert traffic.http.get("/v1/tests/goes-on").json()["status"] == "stopped"
        assert seen.errors == []


def test_an_arm_is_promoted_after_a_question_and_a_refusal_is_told(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    begun(traffic, serving, "promoted", 2)
    with watched(browser) as seen:
        page = opened(seen, serving, "promoted")
        page.get_by_role("button", name="Promote …").click()
        dialog = page.get_by_role("dialog", name="Promote an arm")
        dialog.get_by_label("Arm").select_option("own")
        expect(dialog).to_contain_text("It has not won: the difference may be chance.")
        dialog.get_by_role("button", name="Promote", exact=True).click()
        expect(dialog.get_by_role("alert")).to_contain_text("the caller's own order has won: stop the test")
        dialog.get_by_label("Arm").select_option("m")
        dialog.get_by_role("button", name="Promote", exact=True).click()
        expect(page.get_by_text("m is promoted: m serves its newest version.")).to_be_visible()
        expect(page.locator(".notice code")).to_have_text("DELETE /v1/models/m/pin")
        row = page.get_by_role("region", name="Live tests").get_by_role("row", name=re.compile("^promoted"))
        expect(row).to_contain_text("stopped")
        assert [error for error in seen.errors if "422" not in error] == []


@pytest.mark.parametrize("sign", [1, -1])
def test_the_picture_shows_an_interval_on_both_sides_of_0_and_no_two_names_of_times_overlap(
    sign: int, serving: Serving, won: dict[str, Any], browser: Browser, tmp_path: Path
) -> None:
    def looked(after: float, low: float, high: float, lists: int) -> dict[str, Any]:
        at = won["series"][0]["at"] + int(1000 * after)
        ends = sorted((sign * low, sign * high))
        return won["series"][0] | {"at": at, "lists": lists, "differences": [sign * 0.2], "intervals": [ends]}

    series = [
        looked(0, -0.114, 0.493, 10),
        looked(1, 0.05, 0.4, 20),
        looked(2, 0.1, 0.3, 30),
        looked(60, 0.15, 0.25, 60),
    ]
    with watched(browser, width=400) as seen:
        seen.page.route("**/v1/tests", lambda route: route.fulfill(json={"tests": [won | {"series": series}]}))
        page = opened(seen, serving)
        chart = page.get_by_role("figure")
        expect(chart.locator("polygon.band")).to_have_count(1)
        zero = float(chart.locator("line.zero").get_attribute("y1") or "")
        band = (chart.locator("polygon.band").get_attribute("points") or "").split()
        heights = [float(point.split(",")[1]) for point in band]
        assert min(heights) < zero < max(heights)
        places = sorted(
            (box["x"], box["x"] + box["width"])
            for name in chart.locator("text.axis").all()
            if ":" in (name.text_content() or "") and (box := name.bounding_box()) is not None
        )
        assert len(places) == 2
        assert places[0][1] < places[1][0]
        page.screenshot(path=tmp_path / f"both-sides-{sign}.png", full_page=True)


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_for_everybody(
    width: int,
    scheme: Literal["light", "dark"],
    serving: Serving,
    won: dict[str, Any],
    browser: Browser,
    tmp_path: Path,
) -> None:
    with watched(browser, width=width, scheme=scheme) as seen:
        page = opened(seen, serving)
        page.screenshot(path=tmp_path / f"tests-{width}-{scheme}.png", full_page=True)
        assert seen.faults() == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="To the content")).to_be_focused()


@pytest.mark.parametrize("width, scheme", [(1280, "light"), (400, "dark")])
def test_shadow_mode_is_told_on_the_dashboard_where_there_is_some(
    width: int, scheme: Literal["light", "dark"], serving: Serving, traffic: Traffic, browser: Browser, tmp_path: Path
) -> None:
    name = f"shadow-{width}"
    spec = traffic.http.get("/v1/models/m").json()["spec"]
    kept = {key: spec[key] for key in ("n_features", "ranker", "places", "scaling") if key in spec}
    traffic.http.put(f"/v1/models/{name}", json=kept).raise_for_status()
    serving.ready()
    rng = np.random.default_rng(1)
    for seed in range(20):
        asked = {"documents": documents(seed), "mode": "shadow"}
        shown = traffic.http.post(f"/v1/models/{name}/rank", json=asked).raise_for_status().json()
        clicks = [shown["ranking"][int(rng.integers(4))]["id"]]
        said = {"impression": shown["impression"], "clicks": clicks, "final": True}
        traffic.http.post(f"/v1/models/{name}/feedback", json=said).raise_for_status()
    with watched(browser, width=width, scheme=scheme) as seen:
        page = seen.page
        page.goto(f"{serving.url}/?model={name}")
        section = page.get_by_role("region", name=f"Shadow mode: {name}")
        expect(section).to_contain_text("from 20 searches.")
        gain = section.get_by_role("figure").filter(has_text="Gain in the reciprocal rank")
        expect(gain.locator("polyline.trace, circle.dot")).to_have_count(2)
        gain.get_by_text("As a table").click()
        expect(gain.get_by_role("row").last.get_by_role("cell").last).to_have_text("20")
        page.screenshot(path=tmp_path / f"shadow-{width}-{scheme}.png", full_page=True)
        assert seen.faults() == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.errors == []
        page.goto(f"{serving.url}/?model=m")
        expect(page.get_by_role("heading", level=2).first).to_have_text("Quality over time: m")
        expect(page.get_by_role("region", name=re.compile("Shadow mode"))).to_have_count(0)
    traffic.http.delete(f"/v1/models/{name}").raise_for_status()  # others count the models of this service
