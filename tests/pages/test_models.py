"""The dashboard's models and alarms: what moves every second leaves the reader alone."""

from __future__ import annotations

import json
import re

from helpers.browser import watched
from helpers.dashboard import Traffic, documents, opened
from helpers.serving import SPEC, Serving
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


def test_models_are_filtered_by_name_and_turned_page_by_page(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    names = [f"shop-{i:02}" for i in range(22)]
    try:
        for name in names:
            traffic.http.put(f"/v1/models/{name}", json=SPEC).raise_for_status()
        with watched(browser, width=400) as seen:
            page = opened(seen, serving)
            rows = page.get_by_role("region", name="Models and versions").get_by_role("row")
            expect(page.get_by_text("23 models, page 1 of 2")).to_be_visible()
            expect(rows).to_have_count(1 + 20)
            page.get_by_role("button", name="Next").click()
            expect(page.get_by_text("23 models, page 2 of 2")).to_be_visible()
            expect(rows).to_have_count(1 + 3)
            page.get_by_role("button", name="shop-21").click()
            expect(page.get_by_role("heading", name="Quality over time: shop-21")).to_be_visible()
            page.get_by_label("Filter by name").fill("P-1")
            expect(page.get_by_text("10 of 23 models, page 1 of 1")).to_be_visible()
            expect(page.get_by_label("Filter by name")).to_be_focused()
            expect(page.get_by_role("heading", name="Quality over time: shop-21")).to_be_visible()
            assert seen.faults() == []
            page.reload()
            expect(page.get_by_role("heading", name="Quality over time: shop-21")).to_be_visible()
            assert seen.errors == []
    finally:
        for name in names:
            traffic.http.delete(f"/v1/models/{name}")


def test_a_model_that_has_begun_anew_says_since_when_and_how_to_go_back(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    one = "/v1/models/anew"
    traffic.http.put(one, json=SPEC).raise_for_status()
    try:
        shown = traffic.http.post(f"{one}/rank", json={"documents": documents(1)}).raise_for_status().json()
        said = {"impression": shown["impression"], "clicks": [shown["ranking"][0]["id"]], "final": True}
        traffic.http.post(f"{one}/feedback", json=said).raise_for_status()
        serving.until(lambda: traffic.http.get(one).json()["version"] > 0)
        generation = traffic.http.get(one).json()["generation"]
        traffic.http.put(f"{one}?begin_anew=true", json=SPEC | {"seed": 9}).raise_for_status()
        with watched(browser) as seen:
            page = opened(seen, serving)
            row = page.get_by_role("row", name=re.compile("anew"))
            expect(row.get_by_role("rowheader")).to_have_text("anewbegun anew")
            row.get_by_role("button", name="anew").click()
            notice = page.get_by_text("It began to learn anew on")
            expect(notice).to_contain_text(
                f"Generation {generation} before it had learned 1 impression, up to version 1."
            )
            expect(notice).to_contain_text(f'POST /v1/models/anew/restore {{"generation": {generation}}}')
            expect(page.get_by_label("Alarms")).to_contain_text("It has begun to learn anew")
            assert seen.faults() == []
            traffic.http.post(f"{one}/restore", json={"generation": generation}).raise_for_status()
            expect(notice).to_be_hidden()
    finally:
        traffic.http.delete(one)


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


def test_a_model_whose_people_want_something_else_says_since_when_and_what_it_does(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    moment = traffic.http.get("/v1/overview").json()
    drift = {"at": 1_790_000_000_000, "lists": 115, "before": 0.62, "after": 0.48, "reaction": "forget"}
    body = f"data: {json.dumps(moment | {'chosen': moment['chosen'] | {'drift': drift}})}\n\n"
    with watched(browser) as seen:
        page = seen.page
        page.route("**/v1/live", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
        page.goto(serving.url)
        notice = page.get_by_text("people seem to want something else")
        expect(notice).to_contain_text("was 0.620, and 0.480 over 115 lists after that")
        expect(notice).to_contain_text("weighs a tenth")
        assert seen.faults() == []
