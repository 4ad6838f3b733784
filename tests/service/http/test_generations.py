from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import small
from helpers.service_small import wait_until_ready
from starlette.testclient import TestClient

from perturank.service.http.app import application
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.retention import compact
from perturank.service.learner.verify import faults
from perturank.service.log import snapshots
from perturank.service.serving.service import Service
from perturank.service.settings import Retention

SPEC: dict[str, Any] = {
    "n_features": 2,
    "ranker": "p2linrank",
    "places": 4,
    "features": [{"name": "a"}, {"name": "b"}],
    "settings": {"l2": 3.0},
}
ONE = "/v1/models/m"


def click(http: TestClient, names: str = "ab", source: str | None = None) -> None:
    lots = np.random.default_rng(len(names)).normal(size=(5, len(names)))
    documents = [{"id": f"d{i}", "features": dict(zip(names, row, strict=True))} for i, row in enumerate(lots.tolist())]
    shown = http.post(f"{ONE}/rank", json={"documents": documents, "source": source}).json()
    said = {"impression": shown["impression"], "clicks": [shown["ranking"][2]["id"]], "final": True}
    assert http.post(f"{ONE}/feedback", json=said).json() == {"status": "recorded"}


@pytest.fixture
def learner(http: TestClient, service: Service) -> Learner:
    assert http.put(ONE, json=SPEC).status_code == 201
    learner = Learner(service.log)
    for _ in range(2):
        click(http)
        learner.step()
    service.refresh()
    return learner


def test_a_change_that_would_begin_anew_is_refused_and_says_why_and_what_would_be_lost(
    http: TestClient, learner: Learner
) -> None:
    before = http.get(ONE).json()
    for change, why in (({"seed": 7}, "seed would be 7 and is 1"), ({"settings": {"l2": 4.0}}, "l2 would be 4.0")):
        for answer in (http.put(ONE, json=SPEC | change), http.patch(ONE, json=change)):
            assert (answer.status_code, answer.json()["type"]) == (409, "urn:perturank:begins-anew")
            assert why in answer.json()["title"]
            assert "version 2 has learned 2 impressions" in answer.json()["title"]
            assert "begin_anew=true: generation 1 can be restored" in answer.json()["detail"]
    assert http.get(ONE).json() == before
    assert http.put(ONE, json=SPEC).status_code == 200
    assert http.put(f"{ONE}?begin_anew=yes", json=SPEC).status_code == 422


def test_a_patch_changes_what_it_names_and_null_resets_it(http: TestClient, learner: Learner) -> None:
    before = http.get(ONE).json()
    changed = http.patch(ONE, json={"window": 60.0, "exploration": {"share": 0.5}}).json()
    assert changed["spec"] == before["spec"] | {"window": 60.0, "exploration": {"share": 0.5}}
    changed = http.patch(ONE, json={"exploration": {"protected": 1}}).json()
    assert changed["spec"]["exploration"] == {"share": 0.5, "protected": 1}
    assert http.patch(ONE, json={"window": None, "exploration": None}).json() == before
    assert http.patch(ONE, json={}).json() == before
    assert http.patch(ONE, json={"no such field": 1}).status_code == 422
    assert "one of auto, query, none" in http.patch(ONE, json={"scaling": "automatic"}).json()["detail"]
    assert http.patch("/v1/models/none", json={}).status_code == 404


def test_a_patch_adds_a_feature_and_the_model_goes_on(http: TestClient, service: Service, learner: Learner) -> None:
    features = [*SPEC["features"], {"name": "c"}]
    answer = http.patch(ONE, json={"features": features})
    assert answer.status_code == 200, answer.text
    assert answer.json()["spec"]["n_features"] == 3
    assert answer.json()["version"] == 2
    assert "columns" not in answer.json()["spec"]
    assert http.put(ONE, json=answer.json()["spec"]).json() == answer.json()
    click(http, "abc")
    learner.step()
    service.refresh()
    assert http.get(ONE).json()["learned"] == 3
    assert rebuild(service.log, "m").differs is None


def test_an_earlier_generation_is_listed_served_and_learned_from_again(
    http: TestClient, service: Service, learner: Learner
) -> None:
    first, old = http.get(ONE).json(), learner.states["m"].ranker
    anew = http.patch(f"{ONE}?begin_anew=true", json={"seed": 7})
    assert (anew.status_code, anew.json()["version"]) == (201, 0)
    told = http.get("/v1/overview").json()["models"][0]["begun_anew"]
    assert (told["generation"], told["version"], told["learned"]) == (first["generation"], 2, 2)
    click(http)
    learner.step()
    listed = http.get(f"{ONE}/generations").json()["generations"]
    assert [(each["versions"], each["version"], each["learned"], each["restorable"]) for each in listed] == [
        (1, 3, 1, False),
        (2, 2, 2, True),
    ]
    assert listed[1]["spec"] == first["spec"]
    assert http.post(f"{ONE}/restore", json={"generation": listed[0]["generation"]}).status_code == 409
    assert http.post(f"{ONE}/restore", json={"generation": 10**6}).status_code == 404
    answer = http.post(f"{ONE}/rollback", json={"version": 2})
    assert (answer.status_code, answer.json()["title"]) == (404, "version 2 of model 'm' is of generation 1")
    assert answer.json()["detail"] == 'restore that generation first: POST /v1/models/m/restore {"generation": 1}'

    restored = http.post(f"{ONE}/restore", json={"generation": first["generation"]})
    assert (restored.status_code, restored.json()) == (202, first)  # before the learner has read it
    learner.step()
    assert small.same_bits(learner.states["m"].ranker, old)
    click(http)
    learner.step()
    service.refresh()
    now = http.get(ONE).json()
    assert (now["version"], now["learned"], now["generation"]) == (5, 3, first["generation"])
    versions = http.get(f"{ONE}/versions").json()["versions"]
    assert [each["version"] for each in versions] == [5, 4, 2, 1]
    assert http.put(f"{ONE}/pin", json={"version": 2}).json()["version"] == 2
    assert http.post(f"{ONE}/rollback", json={"version": 1}).status_code == 202
    learner.step()
    report = rebuild(service.log, "m")
    assert report.differs is None
    assert small.same_bits(report.state.ranker, learner.states["m"].ranker)


def best(http: TestClient) -> list[str]:
    """Return the ids of what the served version takes for the best list."""
    wait_until_ready(http)
    documents = [{"id": f"d{i}", "features": [float(i % 3), float(i % 2) - i]} for i in range(5)]
    shown = http.post(f"{ONE}/rank", json={"documents": documents, "mode": "exploit"}).json()
    return [each["id"] for each in shown["ranking"]] + [str(shown["version"])]


def test_a_version_of_an_earlier_generation_is_pinned_while_the_present_one_learns(
    http: TestClient, service: Service, learner: Learner
) -> None:
    before, ranking = http.get(ONE).json(), best(http)
    change = {"ranker": "p2headrank", "settings": {"widths": [4], "budget": 32}, "places": 5}
    assert http.patch(f"{ONE}?begin_anew=true", json=change).status_code == 201
    click(http)
    learner.step()
    service.refresh()
    assert best(http) != ranking
    pinned = http.put(f"{ONE}/pin", json={"version": 2}).json()
    assert [pinned[each] for each in ("version", "learned", "pinned")] == [2, 2, 2]
    assert pinned["generation"] > before["generation"]
    assert best(http)[:4] == ranking[:4]  # of five places now
    assert best(http)[-1] == "2"
    for _ in range(2):
        click(http)
        learner.step()
        service.refresh()
        assert http.get(ONE).json() == pinned
    about = http.get("/v1/overview").json()["models"][0]
    assert (about["version"], about["newest"], about["learned"]) == (2, 5, 3)
    assert about["published_at"] < about["newest_at"]
    listed = http.get(f"{ONE}/versions").json()
    assert (listed["served"], [each["version"] for each in listed["versions"]]) == (2, [5, 4, 3])
    with TestClient(application(Service(service.log, service.settings)), base_url="http://127.0.0.1") as other:
        assert other.get(ONE).json() == pinned
        assert best(other)[:4] == ranking[:4]
    assert list(faults(service.log)) == []
    assert rebuild(service.log, "m").differs is None
    assert http.patch(ONE, json={"exploration": {"protected": 1}}).json()["version"] == 2
    click(http)
    assert http.delete(f"{ONE}/pin").json()["version"] == 5
    assert best(http)[-1] == "5"


def test_what_cannot_be_pinned_of_an_earlier_generation_is_refused_with_the_difference(
    http: TestClient, service: Service, learner: Learner
) -> None:
    def pin(says: str) -> None:
        answer = http.put(f"{ONE}/pin", json={"version": 2})
        assert (answer.status_code, answer.json()["title"]) == (
            409,
            f"version 2 of generation 1 cannot be pinned: {says}",
        )
        assert "POST /v1/models/m/restore" in answer.json()["detail"]

    for change, says in (
        ({"features": [{"name": "x"}, {"name": "y"}]}, "its features are a, b, and x, y now"),
        ({"features": SPEC["features"], "scaling": "query"}, "its scaling is auto, and query now"),
        ({"scaling": "auto", "ranker": "pdgd-linear", "settings": {}}, "pdgd-linear, which learns now, cannot learn"),
    ):
        answer = http.patch(f"{ONE}?begin_anew=true", json=change)
        assert answer.status_code == 201, answer.text
        if "pdgd" not in says:
            pin(says)
    assert says in http.put(f"{ONE}/pin", json={"version": 2}).json()["title"]
    assert http.put(f"{ONE}?begin_anew=true", json=SPEC | {"seed": 9}).status_code == 201
    assert http.put(f"{ONE}/pin", json={"version": 2}).json()["pinned"] == 2
    answer = http.patch(ONE, json={"features": [*SPEC["features"], {"name": "c"}]})
    assert (answer.status_code, answer.json()["title"]) == (
        409,
        "version 2 of generation 1 is pinned, and reads the features of now",
    )
    assert "DELETE /v1/models/m/pin" in answer.json()["detail"]
    assert http.patch(f"{ONE}?begin_anew=true", json={"seed": 10}).json()["pinned"] is None
    assert http.patch(ONE, json={"features": [*SPEC["features"], {"name": "c"}]}).status_code == 200


def test_a_base_of_a_later_generation_ends_the_restoring_of_earlier_ones(
    http: TestClient, service: Service, learner: Learner
) -> None:
    first = http.get(ONE).json()["generation"]
    http.patch(f"{ONE}?begin_anew=true", json={"seed": 7})
    click(http)
    learner.step()
    assert compact(service.log, "m", Retention(impressions=0)) is not None
    listed = http.get(f"{ONE}/generations").json()["generations"]
    assert listed[1]["refusal"] == "the log was compacted past it"
    answer = http.post(f"{ONE}/restore", json={"generation": first})
    assert (answer.status_code, "compacted past it" in answer.json()["title"]) == (409, True)


@pytest.mark.parametrize(
    "change, says",
    [
        ({"features": [{"name": "a"}, {"name": "z"}]}, "the names of the features are ['a', 'b'] in the file"),
        ({"prior_strength": 2.0}, "prior_strength is 1.0 in the file and 2.0 here"),
        ({"scaling": "none"}, "the model's scaling is none"),
        ({"features": [{"name": "a", "scale": 2.0}, {"name": "b"}]}, "another shift or scale"),
    ],
    ids=str,
)
def test_a_file_of_another_schema_is_refused_with_the_difference(
    http: TestClient, learner: Learner, change: Any, says: str
) -> None:
    ranker = learner.states["m"].ranker
    assert ranker is not None
    content = snapshots.file_bytes(ranker, "m", 2)
    assert http.put("/v1/models/same", json=SPEC).status_code == 201
    assert http.put("/v1/models/same/file", content=content).status_code == 202
    assert http.put("/v1/models/other", json=SPEC | change).status_code == 201
    answer = http.put("/v1/models/other/file", content=content)
    assert (answer.status_code, says in answer.json()["title"]) == (422, True), answer.text


def test_a_source_is_unlearned_and_the_model_tells_how_far_that_is(
    http: TestClient, service: Service, learner: Learner
) -> None:
    click(http, source="alice")
    learner.step()
    service.refresh()
    before = http.get(ONE).json()
    assert (before["version"], before["learned"], before["unlearning"]) == (3, 3, None)
    nobody = http.post(f"{ONE}/erase", json={"source": "nobody", "unlearn": True})
    assert (nobody.status_code, "no record names the source 'nobody'" in nobody.json()["title"]) == (404, True)
    assert http.get(ONE).json() == before
    wish = {"source": "alice", "unlearn": True}
    answer = http.post(f"{ONE}/erase", json=wish)
    assert (answer.status_code, http.post(f"{ONE}/erase", json=wish).json()) == (202, answer.json())
    position = answer.json()["position"]
    assert http.get(ONE).json() == before | {"unlearning": {"position": position, "learned": 0}}
    for refused in (
        http.get(f"{ONE}/file"),
        http.get(f"{ONE}/export?format=json"),
        http.put(f"{ONE}/pin", json={"version": 3}),
        http.post(f"{ONE}/rollback", json={"version": 3}),
    ):
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:perturank:contradiction")
        assert f"is unlearning a source since position {position}" in refused.json()["title"]
    learner.step()
    while not learner.is_tidy:
        learner.step()
    service.refresh()
    after = http.get(ONE).json()
    assert (after["version"], after["learned"], after["unlearning"]) == (4, 2, None)
    versions = http.get(f"{ONE}/versions").json()["versions"]
    assert [(each["version"], each["stored"]) for each in versions] == [(4, True), (3, False), (2, True), (1, True)]
    assert http.get(f"{ONE}/export?format=json&version=3").status_code == 404
    assert http.get(f"{ONE}/export?format=json").status_code == 200
    assert compact(service.log, "m", Retention(impressions=0)) is not None
    refused = http.post(f"{ONE}/erase", json={"source": "bob", "unlearn": True})
    assert refused.status_code == 409
    assert "were compacted into its base" in refused.json()["title"]
    assert "erase the source without `unlearn`" in refused.json()["detail"]
