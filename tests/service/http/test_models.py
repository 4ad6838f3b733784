from __future__ import annotations

import math
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import msgspec
import numpy as np
import pytest
from helpers import small
from helpers.service_small import rows, wait_until_ready
from helpers.serving import rebuilding
from starlette.testclient import TestClient

from perturank import storage
from perturank.core import Interaction, Query
from perturank.service.learner.learner import Learner
from perturank.service.log import snapshots
from perturank.service.serving.service import Service
from perturank.wire.specification import SpecRequest

SPEC = {"n_features": 5, "ranker": "pdgd-linear", "places": 4, "scaling": "none"}
DOCUMENTS = [{"id": f"d{i}", "features": row.tolist()} for i, row in enumerate(rows(6))]


def click(http: TestClient, model: str = "m", place: int = 2) -> None:
    shown = http.post(f"/v1/models/{model}/rank", json={"documents": DOCUMENTS}).json()
    said = {"impression": shown["impression"], "clicks": [shown["ranking"][place]["id"]], "final": True}
    assert http.post(f"/v1/models/{model}/feedback", json=said).json() == {"status": "recorded"}


def learned(http: TestClient, service: Service, n: int = 1) -> Learner:
    learner = Learner(service.log)
    for _ in range(n):
        click(http)
        learner.step()
    service.refresh()
    return learner


@pytest.fixture
def made(http: TestClient) -> Any:
    answer = http.put("/v1/models/m", json=SPEC)
    wait_until_ready(http)
    assert answer.status_code == 201
    return answer.json()


def test_a_model_is_made_read_changed_and_deleted(http: TestClient, made: Any) -> None:
    assert http.get("/v1/models/m").json() == made
    assert made["spec"]["settings"]["learning_rate"] == 0.1
    assert http.put("/v1/models/m", json=SPEC).json() == made
    changed = http.put("/v1/models/m", json=SPEC | {"window": 5.0})
    assert (changed.status_code, changed.json()["generation"]) == (200, made["generation"])
    anew = http.put("/v1/models/m?begin_anew=true", json=SPEC | {"settings": {"learning_rate": 0.5}})
    assert anew.status_code == 201
    assert anew.json()["generation"] > made["generation"]
    assert [each["model"] for each in http.get("/v1/models").json()["models"]] == ["m"]
    assert http.delete("/v1/models/m").status_code == 204
    assert http.get("/v1/models/m").status_code == 404
    assert http.delete("/v1/models/m").status_code == 404


def test_a_model_that_is_put_without_a_ranker_keeps_the_one_it_has_and_says_so(http: TestClient, made: Any) -> None:
    again = http.put("/v1/models/m", json={k: v for k, v in SPEC.items() if k not in ("ranker", "settings")})
    assert (again.status_code, again.json()) == (200, made)
    assert made["spec"]["ranker"] == SPEC["ranker"]
    new = http.put("/v1/models/new", json={"n_features": 2, "settings": {"widths": [4]}})
    assert (new.status_code, new.json()["spec"]["ranker"]) == (201, "p2headrank")


@pytest.mark.parametrize(
    "change, says",
    [
        ({"ranker": "pdgd-linaer"}, "did you mean 'pdgd-linear'"),
        ({"settings": {"rate": 1}}, "unknown hyper-parameter 'rate'"),
        ({"n_features": 0}, "the body cannot be understood"),
        ({"features": [{"name": "a"}]}, "1 features are named, n_features is 5"),
        ({"features": [{"name": "a"}] * 5}, "two features are named 'a'"),
        ({"features": [{"name": n, "scale": 0} for n in "abcde"]}, "the scale of feature 'a' is 0"),
        ({"ranker": "p2linrank", "settings": {"n_rankers": 10**400}}, "a number of more than 18 digits"),
        ({"ranker": "p2linrank", "settings": {"l2": 10**400}}, "a number of more than 18 digits"),
        ({"exploration": {"share": 2}}, "the body cannot be understood"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(http: TestClient, change: Any, says: str) -> None:
    answer = http.put("/v1/models/m", json=SPEC | change)
    assert answer.status_code == 422
    assert says in answer.json()["title"]


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["shift", "scale", "missing"])
def test_no_number_of_a_spec_may_be_infinite(http: TestClient, number: float, where: str) -> None:
    body = {"n_features": 1, "features": [{"name": "a", where: number}]}
    headers = {"content-type": "application/msgpack"}  # JSON has no such numbers
    answer = http.put("/v1/models/m", content=msgspec.msgpack.encode(body), headers=headers)
    assert (answer.status_code, "is not finite" in answer.text) == (422, True), answer.text


def test_names_of_models_are_plain(http: TestClient) -> None:
    assert http.put("/v1/models/a%20b", json=SPEC).status_code == 422
    assert http.put(f"/v1/models/{'x' * 65}", json=SPEC).status_code == 422


def test_the_first_request_makes_the_default_model(http: TestClient, service: Service) -> None:
    documents = [{"id": "a", "features": [0.1, 2.0]}, {"id": "b", "features": [0.3, 1.0]}]
    assert http.post("/v1/models/default/rank", json={"documents": []}).status_code == 404
    service.put("default", SpecRequest(n_features=2, ranker="random"))
    answer = http.post("/v1/models/default/rank", json={"documents": documents})
    assert answer.status_code == 200
    assert http.post("/v1/models/other/rank", json={"documents": documents}).status_code == 404


def test_a_first_request_that_is_refused_makes_no_model(http: TestClient, service: Service) -> None:
    good, narrow = {"id": "a", "features": [0.1, 2.0]}, {"id": "b", "features": [1.0]}
    for wrong in (
        {"documents": [good, narrow]},
        {"documents": [good, good]},
        {"documents": [good], "top": 50},
        {"documents": [{"id": "a", "features": [1e30, 0.0]}]},
        {"documents": [good | {"prior": 1.0}, {"id": "b", "features": [0.0, 1.0]}]},
    ):
        assert http.post("/v1/models/default/rank", json=wrong).status_code == 422
        both = {"requests": [{"documents": [good]}, wrong]}
        assert http.post("/v1/models/default/rank/batch", json=both).status_code == 422
    for body in ({"ids": ["a"], "features": b"12345"}, {"ids": ["a", "a"], "features": bytes(16)}):
        packed, headers = msgspec.msgpack.encode(body), {"content-type": "application/msgpack"}
        assert http.post("/v1/models/default/rank", content=packed, headers=headers).status_code == 422
    service.refresh()
    assert "default" not in service.models


def test_documents_of_another_width_are_told_the_way_out(http: TestClient, made: Any) -> None:
    binary = {"content-type": "application/msgpack"}
    narrow = msgspec.msgpack.encode({"ids": ["a", "b"], "features": bytes(4 * 2 * 2)})
    plain = {"documents": [{"id": "a", "features": [1.0, 2.0]}]}
    named = {"documents": [{"id": "a", "features": [1.0, 2.0]}, {"id": "b", "features": []}]}
    answers = [http.post("/v1/models/m/rank", json=body) for body in (plain, named)]
    answers += [http.post("/v1/models/m/rank", content=narrow, headers=binary)]
    for answer in answers:
        said = answer.json()
        assert answer.status_code == 422
        assert "has 2 features" in said["title"]
        assert said["detail"].startswith("the model has 5: send all of them, null where one is missing, or PUT another")
    names = [{"name": name} for name in "abcde"]
    assert http.patch("/v1/models/m", json={"features": names}).status_code == 200
    assert "or add or drop some with PATCH" in http.post("/v1/models/m/rank", json=plain).json()["detail"]
    stranger = http.post("/v1/models/m/rank", json={"documents": [{"id": "a", "features": {"f": 1.0}}]}).json()
    assert stranger["title"] == "document 'a' has a feature 'f'"
    assert stranger["detail"] == "the model has no such feature, but a, b, c, d, e"


def test_versions_are_listed_pinned_and_served(http: TestClient, service: Service, made: Any) -> None:
    learned(http, service, 3)
    listed = http.get("/v1/models/m/versions").json()
    assert (listed["served"], [each["version"] for each in listed["versions"]]) == (3, [3, 2, 1])
    assert http.put("/v1/models/m/pin", json={"version": 2}).json()["version"] == 2
    learned(http, service)
    assert http.get("/v1/models/m").json()["version"] == 2
    assert http.delete("/v1/models/m/pin").json()["version"] == 4
    assert http.put("/v1/models/m/pin", json={"version": 99}).status_code == 404


def test_versions_are_listed_a_page_at_a_time(http: TestClient, service: Service, made: Any) -> None:
    learned(http, service, 4)

    def listed(query: str) -> list[int]:
        return [each["version"] for each in http.get(f"/v1/models/m/versions{query}").json()["versions"]]

    assert listed("?limit=2") == [4, 3]
    assert listed("?limit=2&before=3") == [2, 1]
    assert listed("?before=1") == []
    for bad in ("limit=0", "limit=1001", "limit=-1", "limit=", "limit=1.5", "before=0", "before=x", "before=%D9%A1"):
        assert http.get(f"/v1/models/m/versions?{bad}").status_code == 422


def test_what_the_list_says_is_stored_can_be_pinned_and_nothing_else(
    http: TestClient, service: Service, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "KEPT", 1)
    monkeypatch.setattr(snapshots, "SHARE", 1)
    learned(http, service, 5)
    listed = http.get("/v1/models/m/versions").json()["versions"]
    assert [each["version"] for each in listed if each["stored"]] == [5, 4, 2]
    for each in listed:
        answer = http.put("/v1/models/m/pin", json={"version": each["version"]})
        assert answer.status_code == (200 if each["stored"] else 404)


def test_a_roll_back_serves_the_old_bits_under_a_new_number(http: TestClient, service: Service, made: Any) -> None:
    learner = learned(http, service, 2)
    assert http.post("/v1/models/m/rollback", json={"version": 1}).status_code == 202
    learner.step()
    service.refresh()
    listed = http.get("/v1/models/m/versions").json()
    assert listed["served"] == 3
    assert listed["versions"][0]["digest"] == listed["versions"][2]["digest"]


def test_a_model_is_taken_out_and_brought_back_as_a_file(
    http: TestClient, service: Service, made: Any, tmp_path: Path
) -> None:
    learned(http, service, 2)
    path = tmp_path / "model"
    path.write_bytes(http.get("/v1/models/m/file").content)
    ranker = storage.load(path)
    assert snapshots.digest(ranker) == snapshots.digest(service.models.get("m").ranker)
    http.put("/v1/models/n", json=SPEC)
    wait_until_ready(http)
    assert http.put("/v1/models/n/file", content=path.read_bytes()).status_code == 202
    Learner(service.log).step()
    service.refresh()
    assert small.same_bits(service.models.get("n").ranker, ranker)
    http.put("/v1/models/o", json=SPEC | {"ranker": "random"})
    refused = http.put("/v1/models/o/file", content=path.read_bytes())
    assert refused.status_code == 422
    assert "ranker is pdgd-linear in the file and random here" in refused.json()["detail"]
    assert http.put("/v1/models/n/file", content=b"garbage").status_code == 422


def test_a_file_carries_its_history_and_goes_on_learning_anywhere(http: TestClient, service: Service) -> None:
    asked = SPEC | {"ranker": "p2linrank"}
    http.put("/v1/models/m", json=asked)
    learner = learned(http, service, 2)
    whole = http.get("/v1/models/m/file").content
    ranker = storage.restored(*storage.unpacked(whole, "it"), "it")
    assert small.same_bits(ranker, learner.states["m"].ranker)
    query = Query.of(rows(6))
    ranking = ranker.rank(query, jax.random.key(1), 4)
    seen = Interaction.of(query, ranking, [int(ranking.documents[2])])
    on = ranker.learn(seen, jax.random.key(2))
    assert int(on.history.n_pairs) > int(ranker.history.n_pairs) > 0  # type: ignore[attr-defined]
    http.put("/v1/models/n", json=asked)
    assert http.put("/v1/models/n/file", content=snapshots.state_bytes(on)).status_code == 202
    other = Learner(service.log)
    other.step()
    assert small.same_bits(other.states["n"].ranker, on)
    click(http, "n")
    assert other.step() == 1


def test_one_file_with_its_history_is_made_at_a_time(http: TestClient, service: Service) -> None:
    http.put("/v1/models/m", json=SPEC | {"ranker": "p2linrank"})
    learned(http, service, 1)
    with ThreadPoolExecutor(1) as threads:
        with service.log.transaction():  # for which the child waits
            first = threads.submit(http.get, "/v1/models/m/file")
            rebuilding(os.getpid())
            assert http.get("/v1/models/m/file").status_code == 503
            assert http.get("/v1/models/m/file?history=false").status_code == 200
        assert first.result().status_code == 200


def test_a_file_whose_child_dies_is_to_be_asked_for_again(
    http: TestClient, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    http.put("/v1/models/m", json=SPEC | {"ranker": "p2linrank"})
    learned(http, service, 1)
    with ThreadPoolExecutor(1) as threads, service.log.transaction():
        asked = threads.submit(http.get, "/v1/models/m/file", headers={"x-request-id": "mine"})
        os.kill(rebuilding(os.getpid()), signal.SIGKILL)
        answer = asked.result()
    assert (answer.status_code, answer.json()["title"]) == (503, "the model's file could not be made")
    assert [line.request for line in caplog.records if "code -9" in line.getMessage()] == ["mine"]  # type: ignore[attr-defined]


def test_a_file_without_history_ranks_alike_and_is_not_brought_back(http: TestClient, service: Service) -> None:
    http.put("/v1/models/m", json=SPEC | {"ranker": "p2linrank"})
    learned(http, service, 1)
    light, full = (http.get(f"/v1/models/m/file?history={said}").content for said in ("false", "true"))
    assert len(light) < len(full)
    ranker = storage.restored(*storage.unpacked(light, "it"), "it")
    other = storage.restored(*storage.unpacked(full, "it"), "it")
    query = Query.of(rows(6))
    assert np.array_equal(ranker.score(query), other.score(query))
    answer = http.put("/v1/models/m/file", content=light)
    assert (answer.status_code, "without its history" in answer.json()["title"]) == (422, True)
    assert http.get("/v1/models/m/file?history=maybe").status_code == 422


def test_a_file_is_read_while_others_write(
    http: TestClient, service: Service, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, read = http.get("/v1/models/m/file").content, storage.unpacked

    def slowly(*arguments: Any) -> Any:
        assert service.committer.submit(lambda transaction: "written").result(60) == "written"
        return read(*arguments)

    monkeypatch.setattr(storage, "unpacked", slowly)
    assert http.put("/v1/models/m/file", content=content).status_code == 202


def test_a_model_that_becomes_another_while_its_file_is_read_does_not_take_it(
    http: TestClient, service: Service, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, read = http.get("/v1/models/m/file").content, storage.unpacked

    def meanwhile(*arguments: Any) -> Any:
        service.put("m", SpecRequest(n_features=5, ranker="random", places=4), begin_anew=True)
        return read(*arguments)

    monkeypatch.setattr(storage, "unpacked", meanwhile)
    tail = service.log.tail()
    assert http.put("/v1/models/m/file", content=content).status_code == 503
    assert service.log.tail() == tail + 1  # the change alone
    assert service.log.names("m/imported/") == []


def test_a_file_whose_arrays_do_not_fit_is_refused(http: TestClient, service: Service, made: Any) -> None:
    ranker = service.models.get("m").ranker
    arrays = {name: np.repeat(array[None], 2, 0) for name, array in storage.arrays_of(ranker).items()}
    answer = http.put("/v1/models/m/file", content=storage.packed(arrays, storage.header_of(ranker)))
    assert (answer.status_code, "has shape" in answer.json()["title"]) == (422, True)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_file_that_holds_what_is_no_number_is_refused(http: TestClient, service: Service, value: float) -> None:
    service.put("m", SpecRequest(n_features=5, ranker="p2linrank", places=4, scaling="none"))
    ranker = service.models.get("m").ranker
    sound = storage.arrays_of(ranker)
    names = [name for name, array in sound.items() if array.dtype.kind == "f" and array.size]
    assert any(name.startswith(".history") for name in names)
    for name in names:
        arrays = sound | {name: np.full_like(sound[name], value)}
        answer = http.put("/v1/models/m/file", content=storage.packed(arrays, storage.header_of(ranker)))
        assert (answer.status_code, "has values that are not finite" in answer.json()["title"]) == (422, True), name
    assert service.log.names("m/imported/") == []


@pytest.mark.parametrize("value", [0, np.iinfo(np.int32).max, np.iinfo(np.int32).min])
def test_a_file_whose_whole_numbers_cannot_be_is_refused(http: TestClient, service: Service, value: int) -> None:
    http.put("/v1/models/m", json=SPEC | {"ranker": "p2linrank"})
    learned(http, service, 1)
    sound, header = storage.unpacked(http.get("/v1/models/m/file").content, "it")
    names = [name for name in sound if "_table" in name]
    assert ".history.document_table.cells" in names
    for name in names:
        arrays = sound | {name: np.full_like(sound[name], np.array(value).astype(sound[name].dtype))}
        answer = http.put("/v1/models/m/file", content=storage.packed(arrays, header))
        said = answer.json().get("title", "")
        assert (answer.status_code, said.startswith("the file's array .history.")) == (422, True), (name, said)
    assert service.log.names("m/imported/") == []
    assert http.put("/v1/models/m/file", content=storage.packed(sound, header)).status_code == 202


def test_a_source_is_erased_on_request(http: TestClient, service: Service, made: Any) -> None:
    shown = http.post("/v1/models/m/rank", json={"documents": DOCUMENTS, "source": "alice"}).json()
    said = {"impression": shown["impression"], "clicks": [shown["ranking"][0]["id"]], "final": True}
    assert http.post("/v1/models/m/feedback", json=said).json() == {"status": "recorded"}
    answer = http.post("/v1/models/m/erase", json={"source": "alice"})
    assert (answer.status_code, answer.json()["status"]) == (202, "accepted")
    learner = Learner(service.log)
    while learner.step() or not learner.is_tidy:
        pass
    assert all(record.impression is None for record in service.log.read())
    assert http.post("/v1/models/m/feedback", json=said).json() == {"status": "late"}
    assert http.post("/v1/models/none/erase", json={"source": "alice"}).status_code == 404
    assert http.post("/v1/models/m/erase", json={}).status_code == 422


def test_a_schema_that_reads_alike_keeps_what_was_learned(http: TestClient, made: Any) -> None:
    named = [{"name": name} for name in "abcde"]
    kept = http.put("/v1/models/m", json=SPEC | {"features": named})
    assert (kept.status_code, kept.json()["generation"]) == (200, made["generation"])
    named[4]["missing"] = 0.0  # type: ignore[assignment]
    assert http.put("/v1/models/m", json=SPEC | {"features": named}).status_code == 200
    more = [*named, {"name": "f", "missing": 0.0}]
    assert http.put("/v1/models/m", json=SPEC | {"features": more, "n_features": 6}).status_code == 409


def test_a_damaged_version_gives_way_to_the_one_before_it(
    http: TestClient, service: Service, made: Any, caplog: pytest.LogCaptureFixture
) -> None:
    learner = learned(http, service, 1)
    click(http)
    with service.reading:  # nobody looks before it is damaged
        learner.step()
        name = snapshots.version_name("m", 2)
        content = service.log.stored(name)
        assert content is not None
        with service.log.transaction() as transaction:
            transaction.store(name, content[:-1] + bytes([content[-1] ^ 1]))
    service.refresh()
    assert http.get("/v1/models/m").json()["version"] == 1
    assert http.get("/readyz").json()["faults"] == ["a stored version is damaged or gone, and another one serves"]
    assert caplog.text.count("version 2 of 'm' is damaged") == 1
    click(http)
    learner.step()
    service.refresh()
    assert http.get("/v1/models/m").json()["version"] == 3
    assert http.get("/readyz").json()["faults"] == []
