"""The page in a real browser: search, click, see the version rise and the place change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal

import pytest
from helpers.browser import Watched, watched
from helpers.play_small import Played
from playwright.sync_api import Browser, Locator, Page, expect

QUERY = "join pathname components"


def searched(seen: Watched, played: Played, query: str = QUERY) -> Page:
    page = seen.page
    page.goto(f"{played.url}/play")
    page.get_by_label("Search the documentation").fill(query)
    page.keyboard.press("Enter")
    return page


def titles(page: Page) -> list[str]:
    return page.locator(".result .title").all_inner_texts()


def chart(page: Page, title: str) -> Locator:
    return page.get_by_role("figure").filter(has_text=title)


def places(moved: str) -> tuple[int, int]:
    """Return the places before and after that the panel names; "below 10" is the eleventh."""
    before, after = re.findall(r"place (\d+)|below 10", moved)
    return int(before or 11), int(after or 11)


# These two come first: nobody has clicked yet, so that BM25 alone decides, and a few clicks can be seen to count.


def test_text_is_never_interpreted(browser: Browser, played: Played) -> None:
    """After the first click, exploration may leave html.escape out."""
    with watched(browser) as seen:
        query = "<script>document.title='taken'</script> <img src=x onerror=alert(1)>"
        page = searched(seen, played, query)
        expect(page.locator(".told")).to_contain_text(query)
        assert page.title() == "perturank play"
        assert page.locator("main script, main img").count() == 0
        page.get_by_label("Search the documentation").fill("html escape special characters")
        page.keyboard.press("Enter")
        expect(page.locator(".result .title", has_text="html.escape").first).to_be_visible()
        expect(page.locator(".result", has_text="html.escape").first).to_contain_text('"&", "<" and ">"')
        assert seen.errors == []


def test_clicks_raise_the_version_and_the_place(browser: Browser, played: Played) -> None:
    """The place is the best estimate's, as the panel says it: that in the list as shown is partly luck."""
    with watched(browser) as seen:
        page = searched(seen, played)
        expect(page.locator(".result")).to_have_count(10)
        expect(chart(page, "Mean clicked place")).to_contain_text("click a result")
        expect(chart(page, "Reciprocal rank of the wanted")).to_contain_text("switch on simulated users")
        chosen = titles(page)[5]
        moves = []
        for _ in range(6):  # the same answer, as often as it takes to outweigh BM25
            version = int(page.locator("#version").inner_text().replace(",", ""))
            page.get_by_role("button", name=chosen, exact=True).click()
            expect(page.locator(".told")).to_contain_text(f"Learned: version {version + 1}")
            expect(page.locator("#version")).to_have_text(str(version + 1))
            expect(page.locator(".list .badge").first).to_have_text(f"version {version + 1}")
            expect(page.locator(".effect")).to_contain_text(f"version {version} → {version + 1}")
            moves.append(page.locator(".moved").inner_text())
            if places(moves[-1])[1] < places(moves[0])[0]:
                break
            expect(page.locator(".result.chosen .title")).to_have_text(chosen)
        assert places(moves[-1])[1] < places(moves[0])[0], moves
        assert moves[-1].startswith(f"{chosen} for “{QUERY}”")
        expect(page.locator(".lessons li").first).to_contain_text(f"You preferred {chosen} over")
        assert page.locator(".result mark").first.inner_text().lower() in QUERY
        for title in ("Mean clicked place", "Reciprocal rank of the first", "Pairs without"):
            expect(chart(page, title).locator(".dot, .trace").first).to_be_attached()
        assert seen.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_is_accessible_and_fits_its_width(
    browser: Browser, played: Played, width: int, scheme: Literal["light", "dark"], tmp_path: Path
) -> None:
    with watched(browser, width=width, scheme=scheme) as seen:
        page = searched(seen, played)
        expect(page.locator(".result").first).to_be_visible()
        expect(page.locator(".legend-line")).to_contain_text("all rankers agree on what stands here")
        page.screenshot(path=tmp_path / f"play-{width}-{scheme}.png", full_page=True)
        assert seen.faults() == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert seen.errors == []
        assert sum(seen.weights.values()) < 500_000


def test_a_click_in_the_list_beside_says_that_it_is_not_waited_for(browser: Browser, played: Played) -> None:
    played.send("/play/beside", {"ranker": "random"}, "PUT")
    with watched(browser) as seen:
        page = searched(seen, played)
        beside = page.get_by_role("region", name="random: results")
        chosen = beside.locator(".title").nth(2).inner_text()
        beside.get_by_role("button", name=chosen, exact=True).click()
        expect(page.locator(".told")).to_contain_text(f"{chosen}")
        expect(page.locator(".told")).to_contain_text("search again to see")
        assert seen.errors == []
    played.send("/play/beside", {"ranker": None}, "PUT")


def test_the_dashboard_leads_to_the_game(browser: Browser, played: Played) -> None:
    with watched(browser) as seen:
        page = seen.page
        page.goto(played.url)
        page.get_by_role("link", name="Play").click()
        expect(page.get_by_label("Search the documentation")).to_be_visible()
        page.get_by_role("link", name="Dashboard").click()
        expect(page.get_by_role("link", name="Play")).to_have_count(1)
        assert seen.errors == []


def test_everything_can_be_done_with_the_keyboard(browser: Browser, played: Played) -> None:
    with watched(browser) as seen:
        page = searched(seen, played)
        expect(page.locator(".result")).to_have_count(10)
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.classList.contains('title')"):
                break
        first = page.evaluate("document.activeElement.textContent")
        assert first == titles(page)[0]
        version = page.locator(".list h2 .badge")
        before = version.inner_text()
        page.keyboard.press("Enter")
        expect(page.locator(".told")).to_contain_text("Learned: version")
        expect(version).not_to_have_text(before)
        shown = titles(page)
        assert page.evaluate("document.activeElement.textContent") == (first if first in shown else shown[0])


def test_what_fails_beside_the_page_is_shown_in_it(browser: Browser, played: Played) -> None:
    failing = played.get("/play/state") | {"faults": ["the simulated users have stopped: <b>no</b>"]}
    with watched(browser) as seen:
        page = seen.page
        body = f"data: {json.dumps(failing)}\n\n"
        page.route("**/play/events", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
        page.goto(f"{played.url}/play")
        expect(page.get_by_role("alert")).to_have_text("the simulated users have stopped: <b>no</b>")
        assert seen.faults() == []
        page.unroute("**/play/events")
        expect(page.locator(".faults")).to_be_hidden()


def test_simulated_users_are_switched_on_in_the_page(browser: Browser, played: Played) -> None:
    with watched(browser) as seen:
        page = seen.page
        page.goto(f"{played.url}/play")
        expect(page.locator(".badge", has_text="live")).to_be_visible()
        with page.expect_response("**/play/users"):
            page.get_by_label("Searches", exact=True).select_option("20")
        switch = page.get_by_label("Simulated users")
        switch.click()  # not check(), which looks at once: an event that was under way may still say no
        expect(switch).to_be_checked()
        tile = page.locator(".tile", has_text="Known items searched").locator("b")
        before = int(tile.inner_text().replace(",", ""))
        played.until(lambda state: bool(state["outcome"]["searches"] > before + 60))
        expect(tile).not_to_have_text(str(before))
        expect(page.locator(".chart .trace").first).to_be_visible()
        switch.click()
        expect(switch).not_to_be_checked()
        played.until(lambda state: not state["simulating"])
        assert seen.errors == []
