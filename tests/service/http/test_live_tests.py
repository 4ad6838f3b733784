from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers.service_small import SECONDS, wait_until_ready
from starlette.testclient import TestClient

from perturank.service.learner import verify
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.retention import compact_tests, finish, request_erasure
from perturank.service.log import live_tests, snapshots, verdicts
from perturank.service.log.group_commit import Action
from perturank.service.log.live_tests import name_in_model, stream
from perturank.service.log.records import Impression, LiveTestStopped
from perturank.service.serving.service import Service, Windows
from perturank.service.settings import Retention

SPEC: dict[str, Any] = {"n_features": 2, "ranker": "p2linrank", "places": 4, "scaling": "none", "settle": 0}
TEST = "/v1/tests/t"
WANTED = "d0"  # what everybody clicks


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(service: Service) -> Clock:
    made = Clock()
    service.windows = Windows(made)
    return made


@pytest.fixture
def models(http: TestClient, clock: Clock) -> None:
    """Make a model that learns, another one, one that shows anything, and one that learns from its own lists alone."""
    for name, ranker in (("a", "p2linrank"), ("b", "p2linrank"), ("any", "random"), ("pdgd", "pdgd-linear")):
        assert http.put(f"/v1/models/{name}", json=SPEC | {"ranker": ranker}).status_code == 201
    wait_until_ready(http)


def documents(n: int = 6) -> list[dict[str, Any]]:
    rows = np.random.default_rng(1).normal(size=(n, 2)).round(3).tolist()
    return [{"id": f"d{i}", "features": row, "prior": float(n - i)} for i, row in enumerate(rows)]


def begin(http: TestClient, *arms: str, **changes: Any) -> dict[str, Any]:
    answer = http.put(TEST, json={"arms": arms, **changes})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ranked(http: TestClient, **changes: Any) -> dict[str, Any]:
    answer = http.post(f"{TEST}/rank", json={"documents": documents()} | changes)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def said(http: TestClient, impression: str, **feedback: Any) -> str:
    answer = http.post(f"{TEST}/feedback", json={"impression": impression, **feedback})
    assert answer.status_code == 200, answer.text
    status: str = answer.json()["status"]
    return status


def clicked(http: TestClient, n: int, **changes: Any) -> None:
    """Show n lists, and click what everybody wants where it is shown."""
    for i in range(n):
        shown = ranked(http, source=f"s{i}", **changes)
        if any(each["id"] == WANTED for each in shown["ranking"]):
            said(http, shown["impression"], clicks=[WANTED], final=True)


def counted(service: Service, clock: Clock) -> None:
    clock.now += 10_000
    service.complete_impressions()


def standing(http: TestClient, service: Service) -> dict[str, Any]:
    """Return what the service tells, which is what the log alone makes of the test."""
    told: dict[str, Any] = http.get(TEST).json()
    again = verdicts.told(service.log, "t", live_tests.replayed(service.log, "t"))
    assert told == msgspec.json.decode(msgspec.json.encode(again))
    assert list(verify.faults(service.log)) == []
    return told


@pytest.mark.usefixtures("models")
def test_an_interleaved_test_finds_the_better_order_and_the_log_alone_says_the_same(
    http: TestClient, service: Service, clock: Clock
) -> None:
    begun = begin(http, "any", "own", learns="none")
    assert begun["lists"] == 0
    assert begun["winner"] is begun["leader"] is None
    assert begun["comparisons"][0]["interval"] == [None, None]
    clicked(http, 60)
    assert http.get(TEST).json()["lists"] == 0  # their windows are open
    counted(service, clock)
    found = standing(http, service)
    assert (found["lists"], found["leader"], found["winner"], found["decided_after"]) == (60, "own", "own", 60)
    (comparison,) = found["comparisons"]
    assert comparison["difference"] < comparison["interval"][1] < 0
    assert comparison["confidence"] > 0.95
    assert found["series"][-1]["differences"] == [comparison["difference"]]
    assert [arm["learned"] for arm in found["arms"]] == [0, 0]
    refused = http.post(f"{TEST}/promote", json={})
    assert (refused.status_code, refused.json()["title"]) == (422, "the caller's own order has won")


@pytest.mark.usefixtures("models")
def test_credit_is_the_worth_of_all_that_was_heard_until_the_window_closed(
    http: TestClient, service: Service, clock: Clock
) -> None:
    begin(http, "any", "own", actions={"purchase": 7}, learns="none")
    teams: list[int] = []
    while 1 not in teams:  # the lists may agree
        shown = ranked(http)
        newest = [each.entry for each in service.log.read(model=stream("t")) if isinstance(each.entry, Impression)][-1]
        assert newest.drafted is not None
        teams = newest.drafted.teams
    team = teams.index(1)
    document = shown["ranking"][team]["id"]
    assert said(http, shown["impression"], clicks=[document]) == "recorded"
    assert said(http, shown["impression"], events=[{"id": document, "action": "purchase"}]) == "recorded"
    assert said(http, shown["impression"], clicks=[document]) == "known"
    bad = http.post(f"{TEST}/feedback", json={"impression": shown["impression"], "clicks": ["stranger"]})
    assert bad.status_code == 422
    counted(service, clock)
    other = next(each["id"] for each in shown["ranking"] if each["id"] != document)
    assert said(http, shown["impression"], clicks=[other]) == "late"
    found = standing(http, service)
    assert [arm["credit"] for arm in found["arms"]] == [0.0, 7.0]
    assert found["comparisons"][0]["difference"] == pytest.approx(-7.0 / found["lists"])


@pytest.mark.usefixtures("models")
def test_a_split_keeps_each_source_in_one_arm_and_page_two_goes_on_in_it(
    http: TestClient, service: Service, clock: Clock
) -> None:
    begin(http, "any", "own", method="split")
    own = [f"d{i}" for i in range(4)]
    arms, sources = set(), list(map(str, range(20)))  # which arm a source falls to is chance
    for source in sources:
        lists = [[each["id"] for each in ranked(http, source=source)["ranking"]] for _ in range(4)]
        is_own = all(ids == own for ids in lists)
        assert is_own or lists != [own] * 4
        arms.add(is_own)
    assert arms == {True, False}
    source = next(each for each in sources if _is_own(http, each, own))
    first = ranked(http, source=source)
    second = ranked(http, source=source, continues=first["impression"])
    assert [each["id"] for each in second["ranking"]] == ["d4", "d5"]
    counted(service, clock)
    found = standing(http, service)
    assert sum(arm["lists"] for arm in found["arms"]) == found["lists"] > 80


def _is_own(http: TestClient, source: str, own: list[str]) -> bool:
    return all([each["id"] for each in ranked(http, source=source)["ranking"]] == own for _ in range(3))


@pytest.mark.usefixtures("models")
def test_page_two_of_an_interleaved_list_has_the_documents_that_are_left(http: TestClient) -> None:
    begin(http, "a", "any")
    first = ranked(http)
    second = ranked(http, continues=first["impression"])
    shown = [each["id"] for each in (*first["ranking"], *second["ranking"])]
    assert sorted(shown) == [f"d{i}" for i in range(6)]
    assert said(http, second["impression"], clicks=[second["ranking"][0]["id"]]) == "recorded"


@pytest.mark.parametrize(("learns", "n_shown"), [("own", None), ("all", 4), ("none", 0)])
@pytest.mark.usefixtures("models")
def test_models_learn_from_their_own_documents_or_from_all_or_not_at_all(
    http: TestClient, service: Service, clock: Clock, learns: str, n_shown: int | None
) -> None:
    begin(http, "a", "b", "pdgd", learns=learns)
    learner = Learner(service.log)
    clicked(http, 5)
    counted(service, clock)
    found = standing(http, service)
    reasons = {arm["arm"]: arm["reason"] for arm in found["arms"]}
    if learns != "none":
        assert reasons["pdgd"] == "pdgd-linear learns only from lists that it drew alone"
    lists = [each for each in service.log.read(model="a") if isinstance(each.entry, Impression)]
    assert {each.entry.mode for each in lists if isinstance(each.entry, Impression)} <= {"test"}
    if n_shown is not None:
        assert len(lists) == (5 if n_shown else 0)
        assert all(len(each.entry.ids) == n_shown for each in lists if isinstance(each.entry, Impression))
    assert found["arms"][0]["learned"] == len(lists)
    service.complete_impressions()
    learner.step()
    assert (learner.states["a"].learned > 0) is (learns != "none")
    assert learner.states["pdgd"].learned == 0
    assert rebuild(service.log, "a").differs is None


@pytest.mark.usefixtures("models")
def test_a_click_on_a_list_from_before_a_change_reaches_the_models_that_were_its_arms(
    http: TestClient, service: Service
) -> None:
    begin(http, "a", "b", learns="all")
    shown = ranked(http)
    begin(http, "a", "any", learns="all")
    said(http, shown["impression"], clicks=[shown["ranking"][0]["id"]], final=True)
    learner = Learner(service.log)
    learner.step()
    assert [learner.states[model].learned for model in ("a", "b", "any")] == [1, 1, 0]
    assert list(verify.faults(service.log)) == []


@pytest.mark.usefixtures("models")
def test_a_split_model_learns_from_its_lists_as_ever(http: TestClient, service: Service, clock: Clock) -> None:
    begin(http, "pdgd", "any", method="split")
    clicked(http, 12)
    counted(service, clock)
    learner = Learner(service.log)
    learner.step()
    found = standing(http, service)
    pdgd = found["arms"][0]
    assert pdgd["reason"] is None
    assert learner.states["pdgd"].learned == pdgd["learned"] == pdgd["lists"] > 0
    assert rebuild(service.log, "pdgd").differs is None


@pytest.mark.usefixtures("models")
def test_a_changed_arm_begins_a_period_and_a_new_version_does_not(
    http: TestClient, service: Service, clock: Clock
) -> None:
    begin(http, "a", "any")
    clicked(http, 3)
    counted(service, clock)
    learner = Learner(service.log)
    learner.step()
    service.refresh()
    clicked(http, 2)
    counted(service, clock)
    found = standing(http, service)
    assert (found["lists"], found["period"], found["arms"][0]["version"]) == (5, 1, 1)
    assert http.patch("/v1/models/any", json={"cap": 5}).status_code == 200
    clicked(http, 4)
    counted(service, clock)
    found = standing(http, service)
    assert (found["lists"], found["period"]) == (4, 2)
    assert [each["lists"] for each in found["periods"]] == [5, 4]
    assert http.put(TEST, json={"arms": ["a", "any"]}).status_code == 200  # as it is
    begin(http, "a", "any", level=0.01)
    assert standing(http, service)["lists"] == 0


def test_lists_that_came_before_their_program_earn_nothing(
    http: TestClient, service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(service.models), "is_compiled", lambda *_: False)
    assert http.put("/v1/models/a", json=SPEC).status_code == 201
    begin(http, "a", "own")
    shown = ranked(http)
    assert shown["fallback"] is True
    assert [each["id"] for each in shown["ranking"]] == ["d0", "d1", "d2", "d3"]
    said(http, shown["impression"], clicks=["d0"])
    counted(service, clock)
    found = standing(http, service)
    assert (found["lists"], found["uncounted"]) == (0, 1)


@pytest.mark.parametrize("arms", [("a", "limited"), ("limited", "a")])
def test_arms_of_one_kind_with_and_without_limits_wait_for_a_program_each(
    http: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch, arms: tuple[str, str]
) -> None:
    monkeypatch.setattr(type(service.models), "is_compiled", lambda _, loaded, length: not loaded.is_limited)
    for name, limits in (("a", {}), ("limited", {"protected": 1})):
        assert http.put(f"/v1/models/{name}", json=SPEC | {"exploration": limits}).status_code == 201
    assert service.models.get("a").kind == service.models.get("limited").kind
    begin(http, *arms)
    assert ranked(http)["fallback"] is True


@pytest.mark.usefixtures("models")
def test_an_arm_is_promoted_with_one_call_served_at_once_and_taken_back(
    http: TestClient, service: Service, clock: Clock
) -> None:
    learner = Learner(service.log)
    for method in (
        "split",
        "interleave",
    ):  # the model learns in both: it is the only one that is split, then interleaved
        begin(http, "b", "pdgd", method=method)
        clicked(http, 6)
        counted(service, clock)
        learner.step()
        service.refresh()
    assert http.get("/v1/models/pdgd").json()["version"] > 0
    assert http.post(f"{TEST}/promote", json={}).status_code == 409  # no winner yet
    assert http.post(f"{TEST}/promote", json={"arm": "a"}).status_code == 404
    before = http.get("/v1/models/b").json()
    answer = http.post(f"{TEST}/promote", json={"arm": "pdgd"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["undo"] == f'POST /v1/models/b/restore {{"generation": {before["generation"]}}}'
    assert http.get("/v1/models/b").json()["spec"] == http.get("/v1/models/pdgd").json()["spec"]
    ours, theirs = (service.models.get(name).ranker for name in ("b", "pdgd"))
    assert snapshots.digest(ours) == snapshots.digest(theirs)
    assert (http.get(TEST).json()["promoted"], http.get(TEST).json()["status"]) == ("pdgd", "stopped")
    assert http.post(f"{TEST}/rank", json={"documents": documents()}).status_code == 409
    learner.step()
    assert rebuild(service.log, "b").differs is None
    assert http.post("/v1/models/b/restore", json={"generation": before["generation"]}).status_code == 202
    assert http.get("/v1/models/b").json()["spec"] == before["spec"]
    assert list(verify.faults(service.log)) == []


@pytest.mark.parametrize("asked, kept", [("challenger", "challenger"), ("forget", "alarm")])  # pdgd cannot forget
@pytest.mark.usefixtures("models")
def test_a_model_keeps_its_ubi_records_and_its_reaction_to_drift_when_another_is_promoted(
    http: TestClient, asked: str, kept: str
) -> None:
    own = {"ubi": {"application": "shop", "origins": ["https://shop.example"]}}
    assert http.patch("/v1/models/b", json=own | {"on_drift": asked}).status_code == 200
    begin(http, "b", "pdgd")
    assert http.post(f"{TEST}/promote", json={"arm": "pdgd"}).status_code == 200
    winner, now = (http.get(f"/v1/models/{name}").json()["spec"] for name in ("pdgd", "b"))
    assert {"on_drift": "alarm"} | now == winner | own | {"on_drift": kept}


@pytest.mark.usefixtures("models")
def test_a_promotion_into_a_model_that_unlearns_is_refused_and_writes_nothing(
    http: TestClient, service: Service, clock: Clock
) -> None:
    begin(http, "b", "pdgd", learns="all")
    clicked(http, 2)
    counted(service, clock)
    Learner(service.log).step()
    service.refresh()
    assert http.post("/v1/models/b/erase", json={"source": "s1", "unlearn": True}).status_code == 202
    before = service.log.tail()
    assert http.post(f"{TEST}/promote", json={"arm": "pdgd"}).status_code == 409
    assert service.log.tail() == before
    assert http.get(TEST).json()["status"] == "running"


@pytest.mark.usefixtures("models")
def test_a_winner_whose_versions_were_withdrawn_is_promoted_only_by_name(
    http: TestClient, service: Service, clock: Clock
) -> None:
    begin(http, "any", "b", learns="all")
    learner = Learner(service.log)
    for _ in range(20):
        clicked(http, 20)
        counted(service, clock)
        learner.step()
        service.refresh()
        if standing(http, service)["winner"] == "b":
            break
    assert [arm["unlearned"] for arm in standing(http, service)["arms"]] == [False, False]
    assert http.post("/v1/models/b/erase", json={"source": "s1", "unlearn": True}).status_code == 202
    while learner.step() or not learner.is_tidy:
        pass
    service.refresh()
    assert [arm["unlearned"] for arm in standing(http, service)["arms"]] == [False, True]
    before = service.log.tail()
    refused = http.post(f"{TEST}/promote", json={})
    assert (refused.status_code, "has unlearned a source since" in refused.json()["title"]) == (409, True)
    assert service.log.tail() == before
    assert http.post(f"{TEST}/promote", json={"arm": "b"}).status_code == 200


@pytest.mark.parametrize("arm", ["b", "pdgd"])
@pytest.mark.usefixtures("models")
def test_a_promotion_of_a_test_that_was_stopped_a_moment_ago_writes_nothing(
    http: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch, arm: str
) -> None:
    begin(http, "b", "pdgd")
    submit = service.committer.submit

    def stop_first(action: Action[Any]) -> Future[Any]:
        with service.log.transaction() as transaction:  # of another process
            live_tests.stop(transaction, "t")
        return submit(action)

    before = service.log.tail()
    with monkeypatch.context() as patched:
        patched.setattr(service.committer, "submit", stop_first)
        assert http.post(f"{TEST}/promote", json={"arm": arm}).status_code == 409
    assert [type(each.entry) for each in service.log.read(before)] == [LiveTestStopped]


@pytest.mark.usefixtures("models")
def test_a_version_takes_part_is_kept_and_can_be_pinned(http: TestClient, service: Service, clock: Clock) -> None:
    begin(http, "a", "own", learns="all")
    learner = Learner(service.log)
    clicked(http, 2)
    counted(service, clock)
    learner.step()
    service.refresh()
    begin(http, "a", "a@1", learns="own")
    assert live_tests.versions_in_use(service.log, "a") == {1}
    clicked(http, 2)
    found = http.get(TEST).json()
    assert found["arms"][1]["reason"] == "a version stays as it is"
    assert http.post(f"{TEST}/promote", json={"arm": "a@1"}).json()["undo"] == "DELETE /v1/models/a/pin"
    assert http.get("/v1/models/a").json()["pinned"] == 1
    assert http.put(TEST, json={"arms": ["a", "a@9"]}).status_code == 404


@pytest.mark.usefixtures("models")
def test_a_version_that_was_withdrawn_takes_part_no_more(http: TestClient, service: Service, clock: Clock) -> None:
    begin(http, "a", "own", learns="all")
    learner = Learner(service.log)
    for _ in range(2):
        clicked(http, 2)
        counted(service, clock)
        learner.step()
        service.refresh()
    begin(http, "a", "a@1", learns="none")
    ranked(http)
    assert http.delete(TEST).status_code == 200
    assert http.post("/v1/models/a/erase", json={"source": "s1", "unlearn": True}).status_code == 202
    while learner.step() or not learner.is_tidy:
        pass
    service.refresh()
    assert http.get("/v1/models/a").json()["unlearning"] is None
    refused = http.put(TEST, json={"arms": ["a", "a@1"]})
    assert (refused.status_code, "version 1" in refused.json()["title"]) == (422, True)


@pytest.mark.usefixtures("models")
def test_what_cannot_be_is_refused_with_a_reason(http: TestClient, service: Service) -> None:
    for body, status in (
        ({"arms": ["a"]}, 422),
        ({"arms": ["a", "a"]}, 422),
        ({"arms": ["own", "own"]}, 422),
        ({"arms": ["a", "nobody"]}, 404),
        ({"arms": ["a", "b"], "method": "coin"}, 422),
        ({"arms": ["a", "b"], "level": 0}, 422),
    ):
        assert http.put(TEST, json=body).status_code == status, body
    assert http.get(TEST).status_code == 404
    assert http.post(f"{TEST}/rank", json={"documents": documents()}).status_code == 404
    begin(http, "a", "b")
    assert http.post(f"{TEST}/rank", json={"documents": documents(), "mode": "shadow"}).status_code == 422
    assert http.post(f"{TEST}/feedback", json={"impression": "x"}).status_code == 404
    assert http.delete(TEST).json()["status"] == "stopped"
    assert http.delete(TEST).status_code == 409
    before = service.log.tail()
    refused = http.post(f"{TEST}/promote", json={"arm": "b"})
    assert (refused.status_code, 'then promote {"arm": "b"}' in refused.json()["detail"]) == (409, True)
    assert service.log.tail() == before
    assert [each["test"] for each in http.get("/v1/tests").json()["tests"]] == ["t"]


@pytest.mark.usefixtures("clock")
def test_arms_may_have_different_named_features(http: TestClient) -> None:
    for name, features in (("old", "xy"), ("new", "xyz")):
        spec = {**SPEC, "n_features": len(features), "features": [{"name": each} for each in features]}
        assert http.put(f"/v1/models/{name}", json=spec).status_code == 201
    wait_until_ready(http)
    begin(http, "old", "new")
    rows = [{"id": f"d{i}", "features": {"x": i, "y": 1.0, "z": -i}} for i in range(5)]
    assert ranked(http, documents=rows).keys() >= {"impression", "ranking"}
    bad = [*rows, {"id": "bad", "features": {"x": 1.0, "y": 1.0}}]
    answer = ranked(http, documents=bad, on_error="skip")
    assert [each["id"] for each in answer["skipped"]] == ["bad"]
    strange = [{"id": "d", "features": {"x": 1.0, "y": 1.0, "z": 1.0, "q": 1.0}}]
    assert http.post(f"{TEST}/rank", json={"documents": strange}).status_code == 422


@pytest.mark.parametrize("method", ["interleave", "split"])
@pytest.mark.usefixtures("clock")
def test_rankers_without_probabilities_take_part(http: TestClient, method: str) -> None:
    for name, ranker in (("dbgd", "dbgd-linear"), ("any", "random")):
        assert http.put(f"/v1/models/{name}", json=SPEC | {"ranker": ranker}).status_code == 201
    wait_until_ready(http)
    begin(http, "dbgd", "any", method=method)
    shown = [ranked(http, source=f"s{i}") for i in range(4)]
    assert all(len(each["ranking"]) == 4 and "fallback" not in each for each in shown)
    assert all(each["propensity"] is None for each in shown) or method == "split"


def test_copies_of_a_list_have_names_of_their_own() -> None:
    name = bytes(range(12))
    assert len({name, name_in_model(name, "a"), name_in_model(name, "b")}) == 3
    assert name_in_model(name, "a")[:5] == name[:5]


@pytest.mark.usefixtures("models")
def test_erased_sources_and_old_lists_leave_the_log_and_the_verdict_stays(
    http: TestClient, service: Service, clock: Clock
) -> None:
    begin(http, "any", "own", learns="none")
    clicked(http, 6)
    counted(service, clock)
    before = standing(http, service)
    open_list = ranked(http, source="s1")
    assert http.post("/v1/models/any/erase", json={"source": "s1"}).status_code == 202
    assert (http.get(TEST).json()["lists"], n_lists(service)) == (6, 7)
    learner = Learner(service.log)
    learner.step()
    assert n_lists(service) == 5  # the one that counted, and the one that waited
    assert said(http, open_list["impression"], clicks=[open_list["ranking"][0]["id"]]) == "late"
    counted(service, clock)
    now = standing(http, service)
    assert (now["lists"], now["comparisons"]) == (6, before["comparisons"])
    assert finish(service.log, dict.fromkeys(compact_tests(service.log, Retention(seconds=0)), 0), SECONDS)
    assert n_lists(service) == 0
    clicked(http, 2)
    counted(service, clock)
    assert standing(http, service)["lists"] == 8


@pytest.mark.parametrize("by_service", [True, False])
@pytest.mark.usefixtures("models")
def test_a_source_that_has_come_back_in_a_test_alone_is_erased_by_a_repeated_request(
    http: TestClient, service: Service, by_service: bool
) -> None:
    def unlearn() -> int:
        if by_service:
            return service.erase("any", "s1", unlearn=True)
        return request_erasure(service.log, "s1", "any", unlearn=True)["any"]

    begin(http, "any", "own", learns="none")
    assert http.post("/v1/models/any/rank", json={"documents": documents(), "source": "s1"}).status_code == 200
    first, learner = unlearn(), Learner(service.log)
    while learner.step() or not learner.is_tidy:
        pass
    clicked(http, 3)
    assert unlearn() == first  # the model has nothing to unlearn
    Learner(service.log).step()
    assert n_lists(service) == 2
    end = service.log.tail()
    assert (unlearn(), service.log.tail()) == (first, end)
    assert list(verify.faults(service.log)) == []


def n_lists(service: Service) -> int:
    return sum(isinstance(each.entry, Impression) for each in service.log.read(model=stream("t")))
