"""The dashboard and its service: a key where there are keys, and what the page says when nothing comes any more."""

from __future__ import annotations

import json
import re
from pathlib import Path

from helpers.browser import watched
from helpers.dashboard import Traffic, opened
from helpers.relay import relayed
from helpers.serving import Serving, run
from playwright.sync_api import Browser, Request, expect

LONGER_THAN_ANY_SILENCE = 21_000  # milliseconds
MINUTE = 60_000


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
            for _ in range(3):
                page.keyboard.press("Escape")  # the browser lets a page refuse it once
            page.get_by_label("API key").fill("pr_ключ")
            page.keyboard.press("Enter")
            expect(page.get_by_role("alert")).to_contain_text("This is no key")
            assert page.evaluate("sessionStorage.length") == 0
            expect(page.get_by_text("perturank keys add NAME --scope admin")).to_be_visible()
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
    with relayed(first.url) as way, watched(browser) as seen:  # which keeps the address: another may take the port
        seen.page.goto(way.url)
        state = seen.page.get_by_role("status").first
        expect(state).to_have_text("live")
        way.lead_to(None)
        assert first.stop() == 0
        expect(state).to_contain_text("not live")
        again = Serving(tmp_path)
        way.lead_to(again.url)
        try:
            expect(state).to_have_text("live")
        finally:
            again.kill()


def test_a_stream_that_falls_silent_is_given_up_and_what_was_missed_is_asked_for(
    serving: Serving, traffic: Traffic, browser: Browser
) -> None:
    with relayed(serving.url) as way, watched(browser) as seen:
        page = seen.page
        page.clock.install()
        with page.expect_request(re.compile("/history")):
            opened(seen, way)
        state = page.get_by_role("status").first
        way.passes.clear()
        page.clock.fast_forward(LONGER_THAN_ANY_SILENCE)
        expect(state).to_have_text("not live: nothing was heard for 20 s")
        with page.expect_request(re.compile("/history")):
            way.passes.set()
        expect(state).to_have_text("live")
        assert seen.errors == []


def test_a_month_is_asked_for_again_every_minute(serving: Serving, traffic: Traffic, browser: Browser) -> None:
    """Every stream here has two moments a minute apart: the month is asked for twice before the next begins."""
    moment = traffic.http.get("/v1/overview").json()
    moments = (moment, moment | {"at": moment["at"] + MINUTE})
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in moments)
    asked = list[str]()

    def is_the_second(request: Request) -> bool:
        asked.extend(name for name in ("/v1/live", "span=hours") if name in request.url)
        return asked[-3:] == ["/v1/live", "span=hours", "span=hours"]

    with watched(browser) as seen:
        page = seen.page
        page.route("**/v1/live", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
        page.goto(serving.url)
        expect(page.get_by_role("row", name=re.compile("m p2linrank"))).to_be_visible()
        with page.expect_request(is_the_second):
            page.get_by_label("a month").check()
