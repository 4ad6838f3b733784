from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from perturank.service.http.app import application
from perturank.service.http.auth import add_key
from perturank.service.learner.verify import faults
from perturank.service.log.records import Feedback, Impression
from perturank.service.log.sqlite import SqliteLog
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings
from perturank.wire.specification import SpecRequest

SAMPLE = Path(os.environ.get("PERTURANK_TEST_DATA", "")) / "ubi" / "ubi_queries_events.ndjson.gz"
SHOP, EVIL = "https://shop.example", "https://evil.example"
SPEC: dict[str, Any] = {"n_features": 1, "ranker": "random", "places": 4, "scaling": "none"}
DOCUMENTS = [{"id": each, "features": [0.0]} for each in "abcd"]


def click(document: str = "b", query: str = "q", **changes: Any) -> dict[str, Any]:
    """Return an event with the fields of ubi.js."""
    return {
        "application": "shop",
        "action_name": "click",
        "query_id": query,
        "session_id": "session",
        "client_id": "browser",
        "user_id": "",
        "timestamp": "2026-01-22T14:57:25.099Z",
        "message_type": "INFO",
        "message": "",
        "event_attributes": {
            "object": {"object_id": document, "object_id_field": "sku", "description": None},
            "position": {"ordinal": 2},
        },
    } | changes


class Shop:
    """A service with keys, in front of which is a shop with one model."""

    def __init__(self, http: TestClient, service: Service, secret: str, page: str) -> None:
        self.http, self.service, self.secret, self.page = http, service, secret, page

    def rank(self, query_id: str, **changes: Any) -> Any:
        headers = {"authorization": f"Bearer {self.secret}"}
        body = {"documents": DOCUMENTS, "query_id": query_id} | changes
        answer = self.http.post("/v1/models/m/rank", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, *records: Any, path: str = "/ubi_events", key: str | None = None, **headers: str) -> Any:
        said = {"authorization": f"Bearer {key or self.page}"} | headers
        return self.http.post(path, content=json.dumps(records), headers=said)

    def statuses(self, *records: Any, **more: Any) -> list[str | int]:
        answer = self.send(*records, **more)
        assert answer.status_code == 200, answer.text
        return [each["status"] for each in answer.json()["answers"]]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setattr("perturank.service.http.background.SECONDS_BETWEEN_SAMPLES", 1e9)
    file, log = tmp_path / "keys", SqliteLog(tmp_path / "log.db")
    secret = add_key(file, "backend", ("admin",), None)
    page = add_key(file, "page", ("ubi",), ("m",))
    service = Service(log, ServeSettings(max_documents=16, max_batch=5, keys=str(file)))
    with TestClient(application(service), base_url="http://service.example") as http:
        put = {"ubi": {"application": "shop", "origins": [SHOP]}, **SPEC}
        headers = {"authorization": f"Bearer {secret}"}
        for model, spec in (("m", put), ("other", SPEC)):
            assert http.put(f"/v1/models/{model}", json=spec, headers=headers).status_code == 201
        yield Shop(http, service, secret, page)
    service.close()
    log.close()


def test_events_of_a_query_that_was_ranked_are_recorded(shop: Shop) -> None:
    impression = shop.rank("q")["impression"]
    by_impression = click("c", impression)
    assert shop.statuses(click(), by_impression, click("c"), click("b")) == ["recorded", "recorded", "known", "known"]
    assert shop.statuses(click(query="to come")) == ["early"]
    shop.rank("to come")
    said = {"impression": impression, "clicks": ["b", "d"]}
    answer = shop.http.post(
        "/v1/models/m/feedback", json=said, headers={"authorization": f"Bearer {shop.secret}"}
    ).json()
    assert answer == {"status": "recorded"}
    clicks = [each.entry.clicks for each in shop.service.log.read() if isinstance(each.entry, Feedback)]
    assert clicks == [["b"], ["c"], ["b"], ["d"]]


def test_a_bad_record_spoils_no_other(shop: Shop) -> None:
    shop.rank("q")
    answer = shop.send(click("z"), {"action_name": 5}, 7, click(application="unknown"), click())
    outcomes = answer.json()["answers"]
    assert [each["status"] for each in outcomes] == [422, 422, 422, 404, "recorded"]
    titles = " ".join(each.get("title", "") for each in outcomes)
    assert all(each in titles for each in ("'z' was not shown", "$.action_name", "no model has the application"))
    assert shop.send(*[click()] * 6).status_code == 413
    for body in (b"", b"[", b"7", b'"x"', b"\xff"):
        assert (
            shop.http.post("/ubi_events", content=body, headers={"authorization": f"Bearer {shop.page}"}).status_code
            == 422
        )


def test_one_record_may_stand_alone_whatever_its_type_is_said_to_be(shop: Shop) -> None:
    shop.rank("q")
    headers = {"authorization": f"Bearer {shop.page}", "content-type": "text/plain;charset=UTF-8"}
    answer = shop.http.post("/ubi_events", content=json.dumps(click()), headers=headers)
    assert answer.json() == {"answers": [{"status": "recorded"}]}


def test_what_is_of_no_use_says_so(shop: Shop) -> None:
    shop.rank("q")
    (search,) = shop.send(click(action_name="search", event_attributes=None)).json()["answers"]
    assert search == {"status": "ignored", "title": "the model has no action 'search'"}
    query = {"application": "shop", "query_id": "q", "client_id": "browser", "user_query": "red shoes"}
    outcomes = shop.send(query, query | {"query_id": "p"}, path="/ubi_queries").json()["answers"]
    assert [each["status"] for each in outcomes] == ["listed", "unlisted"]
    assert "features" in outcomes[1]["title"]


def test_a_publishable_key_can_only_add_records_of_its_model(shop: Shop) -> None:
    headers = {"authorization": f"Bearer {shop.page}"}
    for method, path in (
        ("POST", "/v1/models/m/rank"),
        ("POST", "/v1/models/m/feedback"),
        ("GET", "/v1/models/m"),
        ("GET", "/v1/models"),
        ("GET", "/metrics"),
    ):
        assert shop.http.request(method, path, headers=headers).status_code == 403, path
    assert shop.statuses(click(application="other")) == [404]
    assert shop.statuses(click(application="other"), key=shop.secret) == ["early"]
    assert shop.statuses(click(application=None)) == ["early"]  # the key says which model
    assert shop.statuses(click(application=None), key=shop.secret) == [422]
    assert shop.send(click(), key="pr_wrong").status_code == 401


def test_a_page_that_sends_no_header_has_its_key_in_the_path(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    path = f"/ubi/{shop.page}/ubi_events"
    answer = shop.http.post(path, content=json.dumps([click()]), headers={"origin": SHOP})
    assert answer.json() == {"answers": [{"status": "early"}]}
    refused = shop.http.post(f"/ubi/{shop.secret}/ubi_events", content=b"[]")
    assert (refused.status_code, "secret" in refused.json()["title"]) == (403, True)
    assert shop.http.get(f"/ubi/{shop.page}/elsewhere").status_code == 404
    lines = " ".join(each.getMessage() for each in caplog.records if each.name == "perturank.service")
    assert "/ubi/pr_***/ubi_events" in lines
    assert shop.page not in lines
    assert shop.secret not in lines


def test_only_pages_of_the_models_origins_may_send(shop: Shop) -> None:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    for path in ("/ubi_events", "/ubi_queries", f"/ubi/{shop.page}/ubi_events"):
        allowed = shop.http.options(path, headers={"origin": SHOP} | asked)
        assert allowed.status_code == 204
        assert allowed.headers["access-control-allow-origin"] == SHOP
        assert "POST" in allowed.headers["access-control-allow-methods"]
        assert {"authorization", "content-type"} <= set(allowed.headers["access-control-allow-headers"].split(", "))
        refused = shop.http.options(path, headers={"origin": EVIL} | asked)
        assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)
    taken = shop.send(click(), origin=SHOP)
    assert (taken.status_code, taken.headers["access-control-allow-origin"]) == (200, SHOP)
    assert taken.headers["vary"] == "origin"
    unread = shop.send(click(), key="pr_wrong", origin=SHOP)
    assert (unread.status_code, unread.headers["access-control-allow-origin"]) == (401, SHOP)  # the page may read why
    assert shop.send(click(), origin=EVIL).status_code == 403
    assert shop.send(click(), origin="null").status_code == 403
    assert shop.send(click(), origin="http://service.example").status_code == 200  # a page of the same host
    other = shop.send(click(application="other"), key=shop.secret, origin=SHOP)
    assert other.json()["answers"][0]["status"] == 403  # an origin of one model is none of another
    options = shop.http.options("/v1/models/m/rank", headers={"origin": SHOP} | asked)
    assert options.status_code == 405


def test_a_client_may_send_so_many_records_a_second(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    service = Service(log, ServeSettings(client_records_per_second=2))
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        http.put("/v1/models/shop", json=SPEC)
        records = [click("abcd"[i], client_id="loud") for i in range(4)] + [click("a", "p")]
        found = http.post("/ubi_events", json=records).json()["answers"]
        assert [each["status"] for each in found] == ["early", "early", 429, 429, "early"]
        page = {"origin": SHOP}  # without keys, pages of other origins need to be allowed all the same
        assert http.post("/ubi_events", json=[click()], headers=page).status_code == 403
        assert http.patch("/v1/models/shop", json={"ubi": {"origins": [SHOP]}}).status_code == 200
        answer = http.post("/ubi_events", json=[click("d", "p")], headers=page)
        assert answer.headers["access-control-allow-origin"] == SHOP
        rebound = {"host": "evil.example", "origin": SHOP}
        assert http.post("/ubi_events", json=[click()], headers=rebound).status_code == 403
    service.close()
    log.close()


def test_an_application_of_two_models_is_said(shop: Shop) -> None:
    headers = {"authorization": f"Bearer {shop.secret}"}
    shop.http.patch("/v1/models/other", json={"ubi": {"application": "shop"}}, headers=headers)
    answer = shop.send(click(), key=shop.secret).json()["answers"][0]
    assert (answer["status"], "m, other" in answer["title"]) == (422, True)
    assert shop.statuses(click()) == ["early"]  # the page's key is bound to one of them


@pytest.mark.skipif(not SAMPLE.is_file(), reason="PERTURANK_TEST_DATA has no UBI sample")
def test_every_record_of_a_real_log_is_answered(tmp_path: Path) -> None:
    lines = gzip.decompress(SAMPLE.read_bytes()).splitlines()
    pairs = list(zip(lines[::2], map(json.loads, lines[1::2]), strict=True))
    events = [record for head, record in pairs if b"ubi_events" in head]
    applications = {"Chorus": 1, "esci_ubi_sample": 0}  # where their ordinals begin; a third one has no model
    lists: dict[tuple[str, str], dict[int, str]] = {}
    for each in events:
        if each["action_name"] == "impression":
            about = each["event_attributes"]
            shown = lists.setdefault((each["application"], each["query_id"]), {})
            shown.setdefault(about["position"]["ordinal"], about["object"]["object_id"])
    log, found = SqliteLog(tmp_path / "log.db"), Counter[tuple[str, str | int]]()
    service = Service(log, ServeSettings(max_batch=5000, client_records_per_second=1e9))
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        for name, base in applications.items():
            spec = SPEC | {"places": 20, "ubi": {"application": name, "ordinal_base": base}}
            assert http.put(f"/v1/models/m-{base}", json=spec).status_code == 201
        for name, base in applications.items():
            requests = [
                {
                    "documents": [
                        {"id": each, "features": [0.0]} for each in dict.fromkeys(map(shown.get, sorted(shown)))
                    ]
                }
                | {"query_id": query, "mode": "shadow"}
                for (of, query), shown in lists.items()
                if of == name
            ]
            answer = http.post(f"/v1/models/m-{base}/rank/batch", json={"requests": requests})
            assert answer.status_code == 200, answer.text
        for path, some in (("/ubi_events", events), ("/ubi_queries", [r for h, r in pairs if b"ubi_queries" in h])):
            for start in range(0, len(some), 500):
                part = some[start : start + 500]
                outcomes = http.post(path, json=part).json()["answers"]
                found.update(
                    (each["application"], outcome["status"]) for each, outcome in zip(part, outcomes, strict=True)
                )
    assert found.total() == len(pairs) == 3921
    assert found["ubi-demo", 404] == 429
    assert found["Chorus", "ignored"] == 506  # searches
    assert found["esci_ubi_sample", "recorded"] + found["esci_ubi_sample", "known"] == 1060
    assert found["esci_ubi_sample", "listed"] == 200
    assert sum(found["Chorus", status] for status in ("recorded", "known", "early", 422)) == 1453
    assert found["Chorus", 422] == 173  # of other documents at places of which the first one counts here
    assert {status for _, status in found} <= {"recorded", "known", "early", "ignored", "listed", "unlisted", 404, 422}
    assert list(faults(log)) == []
    service.close()
    log.close()


@pytest.mark.parametrize(
    "ubi, says",
    [
        ({"origins": ["https://shop.example/"]}, "origins"),
        ({"origins": ["*"]}, "origins"),
        ({"ordinal_base": 2}, "ordinal_base"),
        ({"actions": {"order": "buy"}}, "'buy'"),
        ({"actons": {}}, "actons"),
    ],
)
def test_what_ubi_of_a_model_cannot_be_is_said(shop: Shop, ubi: dict[str, Any], says: str) -> None:
    headers = {"authorization": f"Bearer {shop.secret}"}
    answer = shop.http.patch("/v1/models/m", json={"ubi": ubi}, headers=headers)
    assert (answer.status_code, says in answer.text) == (422, True), answer.text


def test_the_words_of_a_query_are_kept_only_if_the_model_says_so(shop: Shop) -> None:
    def kept() -> list[str | None]:
        return [each.entry.query_text for each in shop.service.log.read() if isinstance(each.entry, Impression)]

    shop.rank("q", query="red shoes")
    headers = {"authorization": f"Bearer {shop.secret}"}
    assert shop.http.patch("/v1/models/m", json={"keep_query": True}, headers=headers).status_code == 200
    shop.rank("p", query="red shoes")
    assert kept() == [None, "red shoes"]


def test_pages_of_a_query_in_one_batch_have_names_of_their_own(shop: Shop) -> None:
    headers = {"authorization": f"Bearer {shop.secret}"}
    requests = [{"documents": DOCUMENTS[:2], "query_id": "q"}, {"documents": DOCUMENTS[2:], "query_id": "q"}]
    answers = shop.http.post("/v1/models/m/rank/batch", json={"requests": requests}, headers=headers).json()["answers"]
    first, second = (each["impression"] for each in answers)
    assert first != second
    assert shop.statuses(click("a"), click("d")) == ["recorded", "recorded"]
    continued = shop.rank("q", documents=[*DOCUMENTS, {"id": "e", "features": [0.0]}], continues=second)
    assert {each["id"] for each in continued["ranking"]} == {"a", "b", "e"}
    assert shop.statuses(click("e")) == ["recorded"]


def test_events_of_a_model_that_another_process_has_just_made_are_recorded(shop: Shop) -> None:
    spec = {"ubi": {"application": "new shop"}, **SPEC}
    other = Service(shop.service.log, ServeSettings(max_documents=16))
    other.put("new", msgspec.convert(spec, SpecRequest))
    with closing(other):
        assert shop.statuses(click(application="new shop"), key=shop.secret) == ["early"]
        assert shop.statuses(click(application="no shop"), key=shop.secret) == [404]
