from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from perturank.service.http.app import application
from perturank.service.http.auth import add_key
from perturank.service.http.background import Health
from perturank.service.http.openapi import document
from perturank.service.http.routes import ROUTES
from perturank.service.log.sqlite import SqliteLog
from perturank.service.serving.overview import Overview
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings
from perturank.service.telemetry.prometheus import Metrics

SPEC = {"n_features": 2, "ranker": "random"}


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[tuple[TestClient, dict[str, dict[str, str]]]]:
    file = tmp_path / "keys"
    made = {
        "admin": add_key(file, "admin", ("admin",), None),
        "serve": add_key(file, "serve", ("serve",), None),
        "one": add_key(file, "one", ("serve",), ("m",)),
    }
    log = SqliteLog(tmp_path / "log.db")
    service = Service(log, ServeSettings(max_documents=16, keys=str(file), requests_per_second=30.0))
    with TestClient(application(service)) as client:
        yield client, {name: {"authorization": f"Bearer {key}"} for name, key in made.items()}
    service.close()
    log.close()


def test_keys_open_what_their_scope_says(keyed: tuple[TestClient, dict[str, dict[str, str]]]) -> None:
    http, keys = keyed
    assert http.put("/v1/models/m", json=SPEC).status_code == 401
    assert http.put("/v1/models/m", json=SPEC, headers={"authorization": "Bearer pr_x"}).status_code == 401
    assert http.put("/v1/models/m", json=SPEC, headers=keys["serve"]).status_code == 403
    assert http.put("/v1/models/m", json=SPEC, headers=keys["admin"]).status_code == 201
    assert http.put("/v1/models/n", json=SPEC, headers=keys["admin"]).status_code == 201
    body = {"documents": [{"id": "a", "features": [1, 2]}]}
    for name, model, status in [("serve", "m", 200), ("one", "m", 200), ("one", "n", 403), ("admin", "n", 200)]:
        assert http.post(f"/v1/models/{model}/rank", json=body, headers=keys[name]).status_code == status
    assert http.get("/healthz").status_code == 200
    for name, status in (("none", 401), ("one", 403), ("serve", 200)):  # it tells of all models
        assert http.get("/metrics", headers=keys.get(name, {})).status_code == status


def test_queries_of_others_are_explained_to_administrators_alone(
    keyed: tuple[TestClient, dict[str, dict[str, str]]],
) -> None:
    http, keys = keyed
    http.put("/v1/models/m", json=SPEC, headers=keys["admin"]).raise_for_status()
    documents = {"documents": [{"id": "a", "features": [1, 2]}]}
    shown = http.post("/v1/models/m/rank", json=documents, headers=keys["one"]).json()
    path = "/v1/models/m/explain"
    for name, status in (("one", 403), ("serve", 403), ("admin", 200)):
        for answer in (
            http.post(path, json={"recent": 1}, headers=keys[name]),
            http.get(path, params={"recent": 1}, headers=keys[name]),
        ):
            assert answer.status_code == status, answer.text
            assert answer.json().get("type", "urn:perturank:forbidden") == "urn:perturank:forbidden"
        assert http.post(path, json=documents, headers=keys[name]).status_code == 200
        assert http.get(path, params={"impression": shown["impression"]}, headers=keys[name]).status_code == 200
    assert http.get(path, params={"impression": shown["impression"]}).status_code == 401


def test_a_key_that_asks_too_often_is_told_to_wait(keyed: tuple[TestClient, dict[str, dict[str, str]]]) -> None:
    http, keys = keyed
    answers = enumerate(http.get("/v1/models/x", headers=keys["serve"]) for _ in range(5000))
    n, refused = next((n, answer) for n, answer in answers if answer.status_code != 404)
    assert n >= 20
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")


def test_without_keys_an_address_that_asks_too_often_is_told_to_wait(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    service = Service(log, ServeSettings(max_documents=16, requests_per_second=5.0))
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        answers = [http.get("/v1/models/x") for _ in range(40)]
        assert {answer.status_code for answer in answers} == {404, 429}
        assert http.get("/healthz").status_code == 200
    service.close()
    log.close()


def test_no_secret_is_ever_in_a_log_line(
    keyed: tuple[TestClient, dict[str, dict[str, str]]], caplog: pytest.LogCaptureFixture
) -> None:
    http, keys = keyed
    key = keys["admin"]["authorization"].split()[1]
    with caplog.at_level(logging.DEBUG):
        http.get("/v1/models", headers=keys["admin"])
        http.get("/v1/models", params={"key": key})
        http.get("/v1/models", headers={"authorization": f"Basic {key}"})
        http.put("/v1/models/m", content=b"{", headers=keys["admin"])
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("perturank")]
    assert ours[:2] == ["GET /v1/models 200", "GET /v1/models 401"]
    assert not any(key in line for line in ours)


def test_every_answer_and_its_log_line_carry_the_request_id(http: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "perturank.service"):
        answer = http.get("/v1/models/none", headers={"x-request-id": "abc-1"})
        other = http.get("/v1/models/none", headers={"x-request-id": "bad id\x01"})
    assert answer.headers["x-request-id"] == "abc-1" == answer.json()["instance"]
    assert other.headers["x-request-id"] != "bad id\x01"
    said = [(getattr(record, "request", None), record.getMessage()) for record in caplog.records]
    assert said == [(each.headers["x-request-id"], "GET /v1/models/none 404") for each in (answer, other)]


def test_what_does_not_exist_is_a_problem_too(http: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "perturank.service"):
        answers = [http.get("/nowhere"), http.post("/v1/models/m"), http.get("/v1/models/m/"), http.get("/a%0Ab%1B")]
        answers.append(http.get("/static/none.js"))
    assert [answer.status_code for answer in answers] == [404, 405, 404, 404, 404]
    for answer, line in zip(answers, caplog.records, strict=True):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
        assert answer.json()["instance"] == answer.headers["x-request-id"] == getattr(line, "request", None)
    assert set(answers[1].headers["allow"].split(", ")) >= {"GET"}
    assert caplog.records[3].getMessage() == "GET /a%0Ab%1B 404"  # no second line can be smuggled in


def test_without_keys_pages_from_elsewhere_are_refused(http: TestClient) -> None:
    for headers, status in [
        ({"host": "127.0.0.1:8765"}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "[::1]:8765", "origin": "http://[::1]:8765"}, 200),
        ({"host": "evil.example:8765"}, 403),
        ({"host": "["}, 403),
        ({"host": "127.0.0.1:8765", "origin": "http://evil.example"}, 403),
        ({"host": "127.0.0.1:8765", "origin": "http://127.0.0.1:99"}, 403),
        ({"host": "127.0.0.1:8765", "origin": "null"}, 403),
    ]:
        assert http.get("/v1/models", headers=headers).status_code == status, headers


def test_a_failing_background_task_is_reported_until_it_works(service: Service) -> None:
    metrics = Metrics()
    health = Health(Overview(service, metrics.traffic), metrics)

    def fail() -> None:
        raise OSError("no disk")

    with health.watching("it cannot be done"):
        fail()
    (fault,) = health.failing
    assert fault == "it cannot be done: no disk"
    with health.watching("it cannot be done"):
        pass
    assert health.failing == []


def test_anybody_is_told_what_fails_and_not_why(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OSError("could not connect to db.internal as me")

    monkeypatch.setattr(service, "refresh", away)
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        end = time.monotonic() + 20
        while http.get("/readyz").json()["status"] != "failing" and time.monotonic() < end:
            time.sleep(0.02)
        assert http.get("/readyz").json()["faults"] == ["the log cannot be read"]
        says = [alarm["says"] for alarm in http.get("/v1/overview").json()["alarms"] if alarm["name"] == "failing"]
        assert says == ["The log cannot be read: could not connect to db.internal as me."]


def test_a_body_that_nobody_wants_is_not_read(keyed: tuple[TestClient, dict[str, dict[str, str]]]) -> None:
    http, keys = keyed
    body = b"x" * 9_000_000
    for method, path, status in [
        ("GET", "/healthz", 200),
        ("POST", "/nowhere", 404),
        ("POST", "/healthz", 405),
        ("GET", "/openapi.json", 200),
        ("POST", "/v1/models/m/rank", 401),
    ]:
        assert http.request(method, path, content=body).status_code == status
        assert http.request(method, path, headers={"content-length": str(10**12)}).status_code == status
    assert http.request("POST", "/v1/models/m/rank", content=body, headers=keys["serve"]).status_code == 413


def test_health_readiness_and_metrics(http: TestClient) -> None:
    assert http.get("/healthz").json() == {"status": "alive"}
    assert http.get("/readyz").json() == {"status": "ready", "to_compile": 0, "faults": []}
    http.get("/v1/models/none")
    page = http.get("/metrics").text
    assert 'perturank_requests_total{method="GET",path="/v1/models/{model}",status="404"} 1.0' in page
    assert "perturank_log_bytes" in page


def test_the_openapi_document_describes_every_route(http: TestClient) -> None:
    served = http.get("/openapi.json").json()
    assert served == document()
    assert served["openapi"] == "3.1.0"
    assert {(path, m.upper()) for path, ops in served["paths"].items() for m in ops} == {
        (route.path, route.method) for route in ROUTES
    }
    assert "Rank" in served["components"]["schemas"]


def test_the_page_of_documentation_asks_nobody_else(http: TestClient) -> None:
    page = http.get("/docs").text
    assert "POST /v1/models/{model}/rank" in page
    assert len(page) < 100_000
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "default-src 'none'" in http.get("/docs").headers["content-security-policy"]
