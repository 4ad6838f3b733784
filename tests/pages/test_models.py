"""The dashboard's models and alarms: what moves every second leaves the reader alone."""

from __future__ import annotations

import json
import re

from helpers.browser import watched
from helpers.dashboard import Traffic, opened
from helpers.serving import Serving
from playwright.sync_api import Browser, Route, expect

COUNT_CHANGES = """region => {
    window.changes = 0;
    const seen = new MutationObserver(changes => { window.changes += changes.length; });
    seen.observe(region, { childList: true, characterData: true, subtree: true });
}"""


def test_a_model_keeps_its_row_and_the_focus_while_its_numbers_move(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    with watched(browser) as seen:
        page = opened(seen, serving)
        row = page.get_by_role("row", name=re.compile("m p2linrank"))
        expect(row.get_by_role("cell").nth(5)).to_have_text(str(traffic.n))
        before = row.element_handle()
        button = row.get_by_role("button", name="m", exact=True)
        button.focus()
        traffic.click(2)
        expect(row.get_by_role("cell").nth(5)).to_have_text(str(traffic.n))
        assert before.evaluate("row => row.isConnected")
        expect(button).to_be_focused()
        page.keyboard.press("Enter")
        expect(button).to_have_attribute("aria-pressed", "true")


def test_versions_are_listed_and_a_pinned_one_stands_beside_the_newest(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    with watched(browser) as seen:
        page = opened(seen, serving)
        page.get_by_text("The last 20 versions of m").click()
        versions = page.get_by_role("region", name="The last 20 versions").get_by_role("row")
        expect(versions.nth(1)).to_contain_text("served")
        pinned = traffic.http.get("/v1/models/m").json()["version"]
        traffic.http.put("/v1/models/m/pin", json={"version": pinned}).raise_for_status()
        try:
            traffic.click(2)
            version = page.get_by_role("row", name=re.compile("m p2linrank")).get_by_role("cell").nth(1)
            expect(version).to_have_text(re.compile(rf"^{pinned} pinned \(.* ago\), newest \d+$"))
            one = versions.filter(has_text="pinned")
            expect(one.get_by_role("rowheader")).to_have_text(str(pinned))
            expect(one.get_by_role("cell").last).to_have_text("servedpinnedstored")
            expect(versions.nth(1)).not_to_contain_text("served")
        finally:
            traffic.http.delete("/v1/models/m/pin").raise_for_status()
        expect(version).to_have_text(re.compile(r"^\d+$"))
        expect(versions.nth(1)).to_contain_text("served")
        assert seen.faults() == []
        assert seen.errors == []


def test_an_alarm_whose_number_moves_is_read_out_once(serving: Serving, traffic: Traffic, browser: Browser) -> None:
    moment = traffic.http.get("/v1/overview").json()
    waited = iter(range(31, 10_000))

    def later(route: Route) -> None:
        says = f"Clicks have waited for {next(waited)} s to be learned."
        alarm = {"name": "lag", "says": says, "remedy": "See whether the learner works.", "model": "m"}
        body = f"data: {json.dumps(moment | {'alarms': [alarm]})}\n\n"
        route.fulfill(body=body, content_type="text/event-stream")

    with watched(browser) as seen:
        page = seen.page
        page.route("**/v1/live", later)
        page.goto(serving.url)
        spoken = page.get_by_role("status").filter(has_text="Alarms: lag of m.")
        expect(spoken).to_be_attached()
        spoken.evaluate(COUNT_CHANGES)
        shown = page.get_by_label("Alarms").inner_text()
        expect(page.get_by_label("Alarms")).not_to_have_text(shown)
        expect(page.get_by_label("Alarms")).to_contain_text("Clicks have waited for")
        assert page.evaluate("window.changes") == 0
