"""The API as a page to read: nothing of the document is left out, and every link leads somewhere."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import msgspec
import pytest
from helpers.browser import chromium, watched
from helpers.service_small import wait_until_ready
from starlette.testclient import TestClient

from perturank.service.http.docs_page import page
from perturank.service.http.openapi import document, has_schema
from perturank.service.http.routes import ROUTES
from perturank.service.serving.service import Service
from perturank.wire.specification import SpecRequest

DESCRIBED = document()
PAGE = page()
WITH_EXAMPLES = [route for route in ROUTES if route.example != (None, None)]


def section(name: str) -> str:
    """Return what the page says under this heading."""
    found = re.search(rf'<h3 id="{name}">.*?(?=<h[23]|</main>)', PAGE, re.S)
    assert found is not None, name
    return found[0]


def test_every_link_leads_somewhere_and_nothing_is_left_as_a_reference() -> None:
    ids = re.findall(r' id="([^"]+)"', PAGE)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'href="#([^"]+)"', PAGE)) <= set(ids)
    assert "$ref" not in PAGE
    assert '<a href="/">' in PAGE
    assert 'name="viewport"' in PAGE


@pytest.mark.parametrize("name", DESCRIBED["components"]["schemas"])
def test_every_schema_says_its_fields(name: str) -> None:
    schema = DESCRIBED["components"]["schemas"][name]
    said = section(name)
    assert all(f"<code>{field}</code>" in said for field in schema["properties"])
    links = re.findall(r"#/components/schemas/(\w+)", str(schema))
    assert set(re.findall(r'href="#([^"]+)"', said)) == set(links)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.handler)
def test_every_route_says_what_it_takes_and_answers(route: Any) -> None:
    said = section(route.handler.replace(".", "_"))
    for kind in (route.takes, route.gives, route.binary):
        if has_schema(kind):
            assert f'href="#{kind.__name__}"' in said
    assert f"<code>{route.status}</code>" in said
    assert all(f"<code>?{name}=</code>" in said for name, _ in route.query)
    assert ("application/msgpack" in said) == (route.binary is not None)


@pytest.mark.parametrize("route", WITH_EXAMPLES, ids=lambda route: route.handler)
def test_examples_are_what_they_are_examples_of(route: Any) -> None:
    asked, answered = route.example
    msgspec.convert(asked, route.takes)
    msgspec.convert(answered, route.gives)
    texts = re.findall("<pre>(.*?)</pre>", section(route.handler.replace(".", "_")), re.S)
    assert [msgspec.json.decode(unescape(text)) for text in texts] == [asked, answered]


def test_the_example_of_a_list_is_answered(http: TestClient, service: Service) -> None:
    service.put("m", SpecRequest(n_features=2, ranker="random"))
    wait_until_ready(http)
    (route,) = (each for each in WITH_EXAMPLES if each.handler == "lists.rank")
    answer = http.post("/v1/models/m/rank", json=route.example[0])
    assert answer.status_code == 200
    assert answer.json().keys() == route.example[1].keys()


def test_it_can_be_read_on_any_screen(tmp_path: Any) -> None:
    file = tmp_path / "docs.html"
    file.write_text(PAGE)
    with chromium() as browser:
        for width, scheme in ((1280, "light"), (400, "dark")):
            with watched(browser, width=width, scheme=scheme) as seen:  # type: ignore[arg-type]
                seen.page.goto(file.as_uri())
                assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
                assert seen.errors == []
                assert seen.faults() == []
