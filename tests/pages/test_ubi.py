"""A shop's page in a real browser, which sends what ubi.js sends to a service of another origin."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from helpers.browser import watched
from helpers.clicking import DOCUMENTS, exported
from helpers.fenced import ROOT, blocks
from helpers.serving import SPEC, Serving, all_ended, run
from playwright.sync_api import Browser, Page, expect

from perturank.service.http.auth import add_key
from perturank.service.learner.verify import faults
from perturank.service.log import open_log

# ubi.js 1.3 posts an array of one record through axios: an XMLHttpRequest with these two headers. It has no field for
# a key; the page sets a header, or the address to which ubi.js adds /ubi_events holds the key.
SCRIPT = """
const event = (action, query, product, ordinal) => ({
  application: "shop", action_name: action, query_id: query, session_id: "SESSION-1", client_id: "CLIENT-1",
  user_id: "", timestamp: new Date().toISOString(), message_type: "INFO", message: "",
  event_attributes: {object: {object_id: product, object_id_field: "sku", description: null}, position: {ordinal}},
});
const post = (url, records, headers) => new Promise((done) => {
  const request = new XMLHttpRequest();
  request.open("POST", url);
  for (const [name, value] of Object.entries({
    "Accept": "application/json", "Content-Type": "application/json", ...headers,
  })) request.setRequestHeader(name, value);
  request.onload = () => done([request.status, JSON.parse(request.responseText)]);
  request.onerror = () => done([0, null]);
  request.send(JSON.stringify(records));
});
"""
PAGE = f"<!doctype html><title>A shop</title><script>{SCRIPT}</script>"
# In place of ubi.js, which no package index has: the classes that a page uses, with the same records on the wire.
COLLECTOR = f"""{SCRIPT}
export class UbiClient {{
  constructor(base) {{ this.base = base; }}
  async trackEvent(said) {{ return (await post(`${{this.base}}/ubi_events`, [said], {{}}))[1]; }}
}}
export class UbiEvent {{
  constructor(application, action, client_id, session_id, query, about) {{
    Object.assign(this, event(action, query), {{application, client_id, session_id, event_attributes: about}});
  }}
}}
export class UbiEventAttributes {{
  constructor(object_id_field, object_id, description, details) {{
    this.object = {{object_id, object_id_field, description, ...details}};
  }}
}}
"""
HOW_TO = ROOT / "docs" / "how-to" / "put-it-in-front-of-your-shop.md"


@contextmanager
def pages() -> Iterator[str]:
    """Serve the page beside the block, at an origin of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *said: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@contextmanager
def shop_of_the_documentation(folder: Path, service: str, key: str, page_key: str) -> Iterator[str]:
    """Run the shop that the documentation has the reader write, and return its address."""
    files = {block.how["file"]: block.text for block in blocks(HOW_TO) if "file" in block.how}
    files |= {"ubi.js": COLLECTOR, "backend.key": key, "page.key": page_key}
    for name, text in files.items():
        (folder / name).write_text(text)
    environment = os.environ | {"PERTURANK_URL": service, "PORT": "0"}
    command = [sys.executable, "shop.py"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as shop:
        assert shop.stdout is not None
        yield shop.stdout.readline().removeprefix("open ").strip()
        shop.kill()


@pytest.fixture(autouse=True)
def all_end() -> Iterator[None]:
    with all_ended():
        yield


def post(page: Page, url: str, events: list[tuple[str, str, str, int]], headers: dict[str, str]) -> Any:
    """Let the page send events; return the status and what is answered, or 0 where the browser lets it read nothing."""
    script = "([url, events, headers]) => post(url, events.map(each => event(...each)), headers)"
    return page.evaluate(script, [url, [list(each) for each in events], headers])


def test_a_page_of_an_allowed_origin_teaches_the_model_and_no_other_page_does(browser: Browser, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    secret, public = add_key(keys, "backend", ("admin",), None), add_key(keys, "page", ("ubi",), ("m",))
    serving = Serving(tmp_path, PERTURANK_KEYS=str(keys)).ready()
    url = serving.url
    with serving.client(key=secret) as client, pages() as shop, pages() as elsewhere, watched(browser) as seen:
        client.put_model("m", **SPEC, settle=0.1, ubi={"application": "shop", "origins": [shop]})
        shown = client.rank(DOCUMENTS, model="m", query_id="q-1", source="CLIENT-1")
        first, second, third = shown.ids[:3]
        page, header = seen.page, {"Authorization": f"Bearer {public}"}
        page.goto(shop)
        status, answer = post(page, f"{url}/ubi_events", [("click", "q-1", second, 2)], header)
        assert (status, answer) == (200, {"answers": [{"status": "recorded"}]})
        serving.until(lambda: client.model("m")["version"] == 1)
        events = [("purchase", "q-1", second, 2), ("impression", "q-1", third, 3), ("search", "q-1", "", 1)]
        _, answer = post(page, f"{url}/ubi/{public}/ubi_events", events, {})
        assert [each["status"] for each in answer["answers"]] == ["recorded", "recorded", "ignored"]
        serving.until(lambda: client.model("m")["version"] == 2)
        beacon = (
            f"navigator.sendBeacon('{url}/ubi/{public}/ubi_events', JSON.stringify([event('click', 'q-1', '{first}')]))"
        )
        assert page.evaluate(beacon) is True  # as text/plain, when the page is left
        serving.until(lambda: client.model("m")["version"] == 3)
        assert seen.errors == []
        assert "OPTIONS /ubi_events 204" in (tmp_path / "err.txt").read_text()
        page.goto(elsewhere)
        assert post(page, f"{url}/ubi_events", [("click", "q-1", third, 3)], header) == [0, None]
        page.evaluate(beacon.replace(first, third))
        serving.until(lambda: "POST /ubi/pr_***/ubi_events 403" in (tmp_path / "err.txt").read_text())
        assert public not in (tmp_path / "err.txt").read_text()
        shop_key = add_key(keys, "shop's page", ("ubi",), ("shop",))
        with shop_of_the_documentation(tmp_path, url, secret, shop_key) as address, watched(browser) as seen:
            page = seen.page
            page.goto(address)
            page.get_by_role("button", name="Search").click()
            page.get_by_role("listitem").nth(9).wait_for()
            page.get_by_role("listitem").nth(1).get_by_role("button", name="Buy").click()
            expect(page.get_by_role("status")).to_have_text("purchase: recorded")
            assert seen.errors == []
        assert 'perturank_events_total{action="purchase",model="shop"} 1.0' in client.metrics()
    assert serving.stop() == 0
    log = f"sqlite:///{tmp_path}/perturank.db"
    given = [each for each in exported(log) if each["kind"] == "feedback" and each["model"] == "m"]
    assert [each["clicks"] for each in given] == [[second], [], [], [first]]
    assert [each["seen"] for each in given] == [0, 0, 3, 0]
    assert run("replay", "--log", log, "--model", "m", "--verify").returncode == 0
    opened = open_log(log)
    assert list(faults(opened)) == []
    opened.close()
