from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections import Counter
from typing import Any

import anyio.to_thread
import msgspec
import numpy as np
import pytest
from helpers.service_small import rows, wait_until_ready
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient

from perturank.service.http.rank import ListEndpoints
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.verify import faults
from perturank.service.log.records import Impression, new_id, sign_id, unpacked
from perturank.service.serving.service import Service
from perturank.service.telemetry.prometheus import Metrics
from perturank.wire.answers import Explained
from perturank.wire.specification import SpecRequest

SPEC = {"n_features": 5, "ranker": "p2linrank", "places": 4, "scaling": "none"}


@pytest.fixture(autouse=True)
def model(http: TestClient) -> None:
    assert http.put("/v1/models/m", json=SPEC).status_code == 201
    wait_until_ready(http)


def documents(n: int = 6, seed: int = 0) -> list[dict[str, Any]]:
    return [{"id": f"d{i}", "features": row.tolist()} for i, row in enumerate(rows(n, seed))]


def request(service: Service, body: bytes) -> Request:
    """Return a request for the model m, as Starlette hands it to an endpoint."""
    app = Starlette()
    app.state.service = service

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "headers": [], "path_params": {"model": "m"}, "app": app}, receive)


def rank(http: TestClient, status: int = 200, **changes: Any) -> Any:
    answer = http.post("/v1/models/m/rank", json={"documents": documents()} | changes)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()


def feedback(http: TestClient, status: int = 200, **said: Any) -> Any:
    answer = http.post("/v1/models/m/feedback", json=said)
    assert answer.status_code == status, answer.text
    return answer.json()


def impressions(service: Service) -> list[Impression]:
    return [record.entry for record in service.log.read() if isinstance(record.entry, Impression)]


def test_rank_show_click_learn(http: TestClient, service: Service) -> None:
    learner = Learner(service.log)
    shown = rank(http)
    assert len(shown["ranking"]) == 4
    assert {each["id"] for each in shown["ranking"]} <= {f"d{i}" for i in range(6)}
    assert shown["propensity"] == pytest.approx(1 / (6 * 5 * 4 * 3))
    assert shown["version"] == 0
    clicks = [shown["ranking"][1]["id"]]
    said = {"impression": shown["impression"], "clicks": clicks, "final": True}
    assert feedback(http, **said) == {"status": "recorded"}
    assert feedback(http, **said) == {"status": "known"}
    assert learner.step() == 1
    service.refresh()
    assert rank(http)["version"] == 1
    assert rebuild(service.log, "m").differs is None


def test_the_impression_holds_the_shown_documents_and_nothing_else(http: TestClient, service: Service) -> None:
    shown = rank(http, top=2, source="user 7")
    (entry,) = impressions(service)
    assert entry.ids == [each["id"] for each in shown["ranking"]]
    assert len(entry.ids) == 2
    assert entry.log_propensity == pytest.approx(math.log(shown["propensity"]))
    assert shown["propensity"] == pytest.approx(1 / 30)
    assert entry.source == "user 7"


def test_modes(http: TestClient, service: Service) -> None:
    priors = [{"id": each["id"], "features": each["features"], "prior": i / 10} for i, each in enumerate(documents())]
    exploited = rank(http, mode="exploit", documents=priors)
    assert [each["id"] for each in exploited["ranking"]] == ["d5", "d4", "d3", "d2"]
    assert exploited["propensity"] == 1
    shadowed = rank(http, mode="shadow")
    assert [each["id"] for each in shadowed["ranking"]] == ["d0", "d1", "d2", "d3"]
    assert len(impressions(service)[-1].ours or []) == 4


def test_the_binary_form_says_the_same(http: TestClient) -> None:
    body = {"ids": [f"d{i}" for i in range(6)], "features": rows(6).astype("<f4").tobytes(), "top": 3}
    headers = {"content-type": "application/msgpack"}
    answer = http.post("/v1/models/m/rank", content=msgspec.msgpack.encode(body), headers=headers)
    assert answer.headers["content-type"] == "application/msgpack"
    shown = msgspec.msgpack.decode(answer.content)
    assert len(shown["ranking"]) == 3
    said = msgspec.msgpack.encode({"impression": shown["impression"], "clicks": [], "final": True})
    answer = http.post("/v1/models/m/feedback", content=said, headers=headers)
    assert msgspec.msgpack.decode(answer.content) == {"status": "recorded"}
    bad = msgspec.msgpack.encode(body | {"features": b"1234"})
    assert http.post("/v1/models/m/rank", content=bad, headers=headers).status_code == 422
    nan = msgspec.msgpack.encode(body | {"features": np.full((6, 5), np.nan, "<f4").tobytes()})
    assert http.post("/v1/models/m/rank", content=nan, headers=headers).status_code == 422


def test_batches(http: TestClient) -> None:
    answer = http.post("/v1/models/m/rank/batch", json={"requests": [{"documents": documents()}] * 3})
    shown = answer.json()["answers"]
    assert len({each["impression"] for each in shown}) == 3
    said = [{"impression": each["impression"], "clicks": [], "final": True} for each in shown]
    said += [said[0], {"impression": "made-up"}]
    answers = http.post("/v1/models/m/feedback/batch", json={"requests": said}).json()["answers"]
    assert [each["status"] for each in answers] == ["recorded"] * 3 + ["known", 404]
    assert http.post("/v1/models/m/feedback/batch", json={"requests": said * 2}).status_code == 413


def test_others_are_let_in_between_the_lists_of_a_batch(service: Service) -> None:
    lists, recent = ListEndpoints(service, Metrics()), service.models.recent
    loaded = service.models.get("m")
    for length in service.models.lengths(loaded.spec):
        service.models.compile(loaded, length)
    body = msgspec.json.encode({"requests": [{"documents": documents()}] * 5})

    async def looked() -> list[int]:
        answer, seen = asyncio.ensure_future(lists.rank_batch(request(service, body))), [0]
        while not answer.done():
            await asyncio.sleep(0)
            seen.append(len(recent.of("m")))
        assert len(json.loads(bytes(answer.result().body))["answers"]) == 5
        return seen

    assert {0, 1, 2, 3, 4, 5} == set(asyncio.run(looked()))


def test_lists_of_a_simulation_that_wait_for_a_compilation_leave_threads_to_others(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.put("m", msgspec.convert(SPEC | {"chance": "seeded"}, SpecRequest))
    lists, compiled, rank = ListEndpoints(service, Metrics()), threading.Event(), service.rank
    monkeypatch.setattr(service.models, "is_compiled", lambda loaded, length: False)

    def slowly(*args: Any, **options: Any) -> Any:
        assert compiled.wait(60)
        return rank(*args, **options)

    monkeypatch.setattr(service, "rank", slowly)
    body = msgspec.json.encode({"documents": documents()})

    async def looked() -> list[int]:
        asked = [request(service, body) for _ in range(50)]  # more than there are threads
        waiting = [asyncio.ensure_future(lists.rank(each)) for each in asked]
        await asyncio.sleep(0)
        await asyncio.wait_for(anyio.to_thread.run_sync(service.refresh), 30)
        assert not any(each.done() for each in waiting)
        compiled.set()
        return [answer.status_code for answer in await asyncio.gather(*waiting)]

    assert asyncio.run(looked()) == [200] * 50


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"documents": []}, "there are no documents"),
        ({"documents": documents()[:1] * 2}, "two documents are named 'd0'"),
        ({"documents": [{"id": "a", "features": [1.0, 2.0]}]}, "document 'a' has 2 features"),
        (
            {"documents": [{"id": "a", "features": [1e39, 0, 0, 0, 0]}]},
            "feature 0 of document 'a' is not a number up to 1e+12",
        ),
        ({"documents": [{"id": "a", "features": {"x": 1.0}}]}, "the model's features have no names"),
        ({"documents": [{"id": "", "features": [0, 0, 0, 0, 0]}]}, "the body cannot be understood"),
        (
            {"documents": [*documents(1), {"id": "p", "features": [0] * 5, "prior": 1.0}]},
            "some documents have a prior and some have none",
        ),
        ({"top": 5}, "top is 5"),
        ({"top": 0}, "the body cannot be understood"),
        ({"mode": "sideways"}, "the body cannot be understood"),
        ({"extra": 1}, "the body cannot be understood"),
    ],
)
def test_bad_requests_are_refused_and_nothing_is_logged(
    http: TestClient, service: Service, changes: dict[str, Any], says: str
) -> None:
    assert rank(http, 422, **changes)["title"].startswith(says)
    assert impressions(service) == []


def test_more_places_than_the_model_has_are_told_who_says_how_many(http: TestClient) -> None:
    assert rank(http, 422, top=5)["detail"] == "the model's lists have 4 places; `places` of its PUT says how many"


def test_too_many_documents_or_bytes_are_refused(http: TestClient) -> None:
    assert rank(http, 413, documents=documents(17))["title"] == "there are 17 documents"
    answer = http.post("/v1/models/m/rank", content=b"x" * 20_001)
    assert answer.status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"documents": NaN}', b"\xff\xfe", b"[" * 5000, b"null"])
def test_what_is_no_json_is_refused(http: TestClient, body: bytes) -> None:
    for path in ("rank", "feedback", "rank/batch", "explain"):
        assert http.post(f"/v1/models/m/{path}", content=body).status_code == 422


def test_feedback_that_makes_no_sense_is_refused(http: TestClient) -> None:
    name = rank(http)["impression"]
    assert "clicked but not shown" in feedback(http, 422, impression=name, clicks=["zzz"])["title"]
    assert feedback(http, 404, impression="AAAA")["status"] == 404
    assert http.post("/v1/models/none/feedback", json={"impression": name}).status_code == 404


def test_named_features_are_scaled_and_may_be_missing(http: TestClient) -> None:
    named = [{"name": n, "shift": 1.0, "scale": 2.0} for n in "abcd"] + [{"name": "e", "missing": 0.5}]
    assert http.put("/v1/models/m?begin_anew=true", json=SPEC | {"features": named}).status_code == 201
    full = {"a": 1, "b": 1, "c": 1, "d": 3}
    assert rank(http, documents=[{"id": "x", "features": full}])["ranking"] == [{"id": "x", "certain": True}]
    lacking = rank(http, 422, documents=[{"id": "x", "features": {"a": 1, "b": 1, "c": 1}}])
    assert "feature 'd' of document 'x' is missing" in lacking["title"]
    assert "has a feature 'z'" in rank(http, 422, documents=[{"id": "x", "features": full | {"z": 1}}])["title"]


@pytest.mark.parametrize("scaling", ["auto", "query"])
def test_a_feature_that_is_null_or_not_named_is_missing(http: TestClient, service: Service, scaling: str) -> None:
    named = {"features": [{"name": name} for name in "abcde"], "scaling": scaling}
    assert http.put("/v1/models/raw", json=SPEC | named).status_code == 201
    full = dict.fromkeys("abcde", 3.0)
    given = [full, full | {"b": None}, {"a": 1.0}, [1.0, None, 1e9, 4.0, 5.0]]
    asked = [{"id": f"d{i}", "features": features} for i, features in enumerate(given)]
    answer = http.post("/v1/models/raw/rank", json={"documents": asked}).json()
    assert {each["id"] for each in answer["ranking"]} == {"d0", "d1", "d2", "d3"}
    [shown] = [record.entry for record in service.log.read(model="raw") if isinstance(record.entry, Impression)]
    kept = dict(zip(shown.ids, unpacked(shown.packed, None)[0], strict=True))
    np.testing.assert_array_equal(np.isnan(kept["d2"]), [False, True, True, True, True])
    if scaling == "auto":
        np.testing.assert_array_equal(kept["d3"], np.array([1.0, np.nan, 1e9, 4.0, 5.0], np.float32))
    else:
        assert np.nanmin(list(kept.values())) == 0.0
        assert np.nanmax(list(kept.values())) == 1.0
    bad = http.post("/v1/models/raw/rank", json={"documents": [{"id": "x", "features": full | {"c": 1e30}}]})
    assert bad.json()["title"] == "feature 'c' of document 'x' is not a number up to 1e+12"


def test_exploration_is_held_back_and_the_probability_says_so(http: TestClient) -> None:
    limits = {"protected": 1, "displacement": 1, "share": 0.5}
    assert http.put("/v1/models/m", json=SPEC | {"exploration": limits}).status_code == 200
    while rank(http).get("fallback"):  # their program is still being compiled
        pass
    lists = [rank(http) for _ in range(60)]
    drawn = Counter("".join(each["id"][1] for each in shown["ranking"]) for shown in lists)
    assert set(drawn) <= {"0123", "0213", "0132", "0124", "0214"}  # place 0 is protected, nobody moves further than 1
    said = {"".join(each["id"][1] for each in shown["ranking"]): shown["propensity"] for shown in lists}
    assert said["0123"] == pytest.approx(0.5 + 0.5 * 0.125)
    others = {name: p for name, p in said.items() if name != "0123"}
    assert all(p in (pytest.approx(0.5 * 0.25), pytest.approx(0.5 * 0.125)) for p in others.values())


def test_limits_need_a_ranker_that_knows_its_probabilities(http: TestClient) -> None:
    asked = {"n_features": 5, "ranker": "dbgd-linear", "exploration": {"share": 0.5}}
    assert "does not know the probability" in http.put("/v1/models/d", json=asked).json()["title"]


def test_explain_says_who_was_free(http: TestClient, service: Service) -> None:
    answer = http.post("/v1/models/m/explain", json={"documents": documents(3)}).json()
    assert [each["id"] for each in answer["ranking"]] == ["d0", "d1", "d2"]
    assert answer["ranking"][0]["free"] == ["d0", "d1", "d2"]
    assert answer["ranking"][2]["certain"] is True
    assert len(answer["ranking"][0]["scores"]) == 2


def test_a_logged_list_is_explained_as_it_was_shown_by_what_is_known_now(http: TestClient, service: Service) -> None:
    learner = Learner(service.log)
    priors = [each | {"prior": float(i // 2)} for i, each in enumerate(documents())]
    shown = rank(http, documents=priors)
    said = {"impression": shown["impression"], "clicks": [shown["ranking"][1]["id"]], "final": True}
    feedback(http, **said)
    assert learner.step() == 1
    service.refresh()
    answer = http.get("/v1/models/m/explain", params={"impression": shown["impression"]})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert "shown" in msgspec.json.decode(answer.content, type=Explained)
    assert (found["version"], found["shown"]["version"]) == (1, 0)
    assert found["shown"]["impression"] == shown["impression"]
    assert (found["shown"]["mode"], found["shown"]["propensity"]) == ("learn", shown["propensity"])
    assert [each["id"] for each in found["ranking"]] == [each["id"] for each in shown["ranking"]]
    chosen = [priors[int(each["id"][1])] for each in shown["ranking"]]
    same = http.post("/v1/models/m/explain", json={"documents": chosen}).json()
    scores = {each["id"]: each["scores"] for each in same["ranking"]}
    assert {each["id"]: each["scores"] for each in found["ranking"]} == scores
    assert {each["id"]: set(each["certainly_after"]) for each in found["ranking"]} == {
        each["id"]: set(each["certainly_after"]) for each in same["ranking"]
    }
    assert set(found["ranking"][0]["free"]) == set(same["ranking"][0]["free"])
    # Two documents have each prior: which of them comes first is a lot, and the other follows.
    first = found["ranking"][0]
    assert first["explored"] is True
    assert [each["certain"] for each in shown["ranking"]] == [False, True, False, True]
    for each, was in zip(found["ranking"], shown["ranking"], strict=True):
        assert each["explored"] in (None, not was["certain"])


def test_lists_that_did_not_explore_say_so(http: TestClient) -> None:
    for mode in ("exploit", "shadow"):
        found = http.get("/v1/models/m/explain", params={"impression": rank(http, mode=mode)["impression"]}).json()
        assert [each["explored"] for each in found["ranking"]] == [False] * 4
        assert found["shown"]["mode"] == mode


def test_what_is_not_in_the_log_is_not_explained(http: TestClient, service: Service) -> None:
    def why(status: int, **asked: Any) -> str:
        answer = http.get("/v1/models/m/explain", params=asked)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        return f"{answer.json()['title']}: {answer.json()['detail']}"

    name = rank(http)["impression"]
    assert "was not given by this model" in why(404, impression="made-up")
    assert why(422).startswith("the request does not say what to explain")
    assert why(422).endswith("documents are sent here with POST")
    assert "the request does not say what to explain" in why(422, impression=name, recent=1)
    assert "recent is 'x'" in why(422, recent="x")
    gone = sign_id(new_id(0), "m", service.log.secret)
    assert "compacted, erased, or never kept" in why(404, impression=gone)
    assert http.put("/v1/models/m?begin_anew=true", json=SPEC | {"n_features": 3}).status_code == 201
    assert "before the model began anew" in why(404, impression=name)


def test_a_clock_set_back_a_day_changes_nothing(
    http: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, today, now = Learner(service.log), time.time, time.time_ns
    first = rank(http)
    monkeypatch.setattr(time, "time", lambda: today() - 86_400)
    monkeypatch.setattr(time, "time_ns", lambda: now() - 86_400 * 10**9)
    second = rank(http)
    for shown in (first, second):
        said = {"impression": shown["impression"], "clicks": [shown["ranking"][0]["id"]], "final": True}
        assert feedback(http, **said) == {"status": "recorded"}
    service.complete_impressions()  # none is over, and none opens again
    assert learner.step() == 2
    service.refresh()
    assert rank(http, mode="exploit")["version"] == 1
    assert list(faults(service.log)) == []
    assert rebuild(service.log, "m").differs is None
    ages = [float(line.split()[1]) for line in http.get("/metrics").text.splitlines() if "age_seconds{" in line]
    assert min(ages) >= 0


def test_more_clicks_than_a_list_can_have_are_refused(http: TestClient) -> None:
    name = rank(http)["impression"]
    feedback(http, 422, impression=name, clicks=[f"c{i}" for i in range(101)])


def test_the_number_of_a_draw_decides_the_list_of_a_model_with_seeded_chance(http: TestClient) -> None:
    assert http.put("/v1/models/m", json=SPEC | {"chance": "seeded"}).status_code == 200
    lists = [[each["id"] for each in rank(http, draw=n)["ranking"]] for n in (1, 1, 2, 3, 4)]
    assert lists[0] == lists[1]
    assert any(other != lists[0] for other in lists[2:])
    half = SPEC | {"chance": "seeded", "exploration": {"share": 0.5}}
    assert http.put("/v1/models/m", json=half).status_code == 200
    again = [[rank(http, draw=n)["propensity"] for n in range(6)] for _ in range(2)]
    assert again[0] == again[1]


def test_a_draw_is_refused_where_chance_is_the_machines(http: TestClient) -> None:
    assert "draw" in rank(http, 422, draw=3)["title"]


def ids(shown: Any) -> list[str]:
    return [each["id"] for each in shown["ranking"]]


def test_pages_go_on_where_the_one_before_ended(http: TestClient, service: Service) -> None:
    learner = Learner(service.log)
    asked: dict[str, Any] = {"documents": documents(10)}
    first = rank(http, **asked)
    feedback(http, impression=first["impression"], clicks=ids(first)[1:2], final=True)
    assert learner.step() == 1
    service.refresh()
    assert rank(http, **asked)["version"] == 1
    second = rank(http, **asked, continues=first["impression"])
    third = rank(http, **asked, continues=second["impression"])
    assert sorted(ids(first) + ids(second) + ids(third)) == sorted(each["id"] for each in asked["documents"])
    assert [first["version"], second["version"], third["version"]] == [0, 0, 0]
    assert second["propensity"] == pytest.approx(1 / (6 * 5 * 4 * 3))
    assert [len(entry.earlier) for entry in impressions(service)] == [0, 0, 1, 2]
    rank(http, 422, **asked, continues=third["impression"])
    rank(http, 404, **asked, continues="made-up")
    feedback(http, impression=second["impression"], clicks=ids(second)[:1], final=True)
    assert learner.step() == 1
    assert rebuild(service.log, "m").differs is None


def test_places_that_are_protected_are_those_of_the_first_page(http: TestClient) -> None:
    limits = {"exploration": {"protected": 4}}
    assert http.put("/v1/models/m", json=SPEC | limits).status_code == 200
    wait_until_ready(http)
    first = rank(http, documents=documents(8))
    assert (ids(first), first["propensity"]) == (["d0", "d1", "d2", "d3"], 1.0)
    second = rank(http, documents=documents(8), continues=first["impression"])
    assert second["propensity"] == pytest.approx(1 / (4 * 3 * 2))


@pytest.mark.parametrize("bad", [1e30, "dear", None])
def test_a_document_that_cannot_be_read_may_be_skipped(http: TestClient, service: Service, bad: Any) -> None:
    asked = documents(5)
    asked[2]["features"][3] = bad
    rank(http, 422, documents=asked)
    shown = rank(http, documents=asked, on_error="skip")
    assert sorted(ids(shown)) == ["d0", "d1", "d3", "d4"]
    assert [each["id"] for each in shown["skipped"]] == ["d2"]
    assert shown["skipped"][0]["title"]
    assert "skipped" not in rank(http, on_error="skip")
    nothing = rank(http, 422, documents=asked[2:3], on_error="skip")
    assert nothing["title"] in ("no document can be read", "there are no documents")


def test_a_row_that_cannot_be_read_may_be_skipped(http: TestClient) -> None:
    features = rows(6)
    features[4, 1] = np.inf
    body = {"ids": [f"d{i}" for i in range(6)], "features": features.astype("<f4").tobytes(), "on_error": "skip"}
    headers = {"content-type": "application/msgpack"}
    answer = http.post("/v1/models/m/rank", content=msgspec.msgpack.encode(body), headers=headers)
    shown = msgspec.msgpack.decode(answer.content)
    assert shown["skipped"] == [{"id": "d4", "title": "feature 1 of document 'd4' is not a number up to 1e+12"}]
    assert "d4" not in ids(shown)


def test_a_document_without_a_prior_is_skipped_where_others_have_one(http: TestClient) -> None:
    asked = [each | ({"prior": 1.0} if i else {}) for i, each in enumerate(documents(4))]
    shown = rank(http, documents=asked, on_error="skip")
    assert shown["skipped"] == [{"id": "d0", "title": "document 'd0' has no prior"}]
