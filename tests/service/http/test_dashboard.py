"""What the dashboard and Prometheus are told is what happened."""

from __future__ import annotations

import gzip
import json
import random
import re
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from helpers.service_small import N_FEATURES, PLACES, created, learned, rows, spec, wait_until_ready
from helpers.service_small import lived as shown_and_clicked
from starlette.testclient import TestClient

from perturank.service.http.background import Sampler
from perturank.service.learner.learner import Learner
from perturank.service.learner.state import State
from perturank.service.log import Log, changes, quality, shadow
from perturank.service.log.counters import LEARNED, MINUTE, TOTAL, merge
from perturank.service.log.feedback import close_windows
from perturank.service.log.records import Changed, Feedback, Impression
from perturank.service.log.refusals import NotKnown
from perturank.service.log.sqlite import SqliteLog
from perturank.service.serving.overview import Overview, View
from perturank.service.serving.service import Service
from perturank.service.telemetry.prometheus import Metrics, Traffic
from perturank.wire.requests import ListFeedback
from perturank.wire.specification import ACTIONS

MODEL = {"n_features": N_FEATURES, "ranker": "p2linrank", "places": PLACES}


def documents(seed: int = 0, n: int = 6) -> list[dict[str, Any]]:
    return [{"id": f"d{i}", "features": row.tolist()} for i, row in enumerate(rows(n, seed))]


@pytest.fixture
def lived(http: TestClient) -> TestClient:
    """Show three lists: one clicked at places 1 and 3, one at 2, one not."""
    http.put("/v1/models/m", json=MODEL).raise_for_status()
    wait_until_ready(http)
    for seed, places in enumerate(([0, 2], [1], [])):
        shown = http.post("/v1/models/m/rank", json={"documents": documents(seed), "query": f"q{seed}"}).json()
        clicks = [shown["ranking"][place]["id"] for place in places]
        said = {"impression": shown["impression"], "clicks": clicks, "final": True}
        http.post("/v1/models/m/feedback", json=said).raise_for_status()
    http.post("/v1/models/m/rank", json={"documents": documents(9, 2), "mode": "exploit"}).raise_for_status()
    return http


def test_the_overview_counts_lists_clicks_and_places(lived: TestClient) -> None:
    moment = lived.get("/v1/overview").json()
    (model,) = moment["models"]
    assert moment["chosen"] == model | {name: moment["chosen"][name] for name in ("by_place", "minutes")}
    total = model["total"]
    assert total["lists"] == {"learn": 3, "exploit": 1, "shadow": 0, "own": 0, "imported": 0, "test": 0}
    assert total["feedback"] == {"recorded": 3, "early": 0, "late": 0}
    assert [(each["shown"], each["clicks"]) for each in moment["chosen"]["by_place"]] == [
        (4, 1),
        (4, 1),
        (3, 1),
        (3, 0),
    ]
    assert 0 <= total["certain_places"] <= 1
    assert total["exploration"]["lists"] == 3
    assert total["exploration"]["shown"] == pytest.approx((1 + 1 / 2) / 3)
    told = {name: (each["lists"], each["rank"], each["reward"]) for name, each in total["quality"].items()}
    assert {name: told[name] for name in ("learn", "exploit", "shown")} == {
        "learn": (3, 0.5, 1.0),
        "exploit": (1, 0.0, 0.0),
        "shown": (4, 0.375, 0.75),
    }
    assert told.keys() == {"learn", "exploit", "shown", "best", "own"}
    assert model["lag"] > 0  # nobody learns here
    assert [alarm["name"] for alarm in moment["alarms"]] == ["no learner"]
    assert sum(moment["traffic"]["rank"]["per_second"]) <= 4


def test_history_says_the_same_by_the_minute_and_by_the_hour(lived: TestClient) -> None:
    answer = lived.get("/v1/models/m/history").json()
    assert sum(bucket["clicks"] for bucket in answer["buckets"]) == 3
    hours = lived.get("/v1/models/m/history", params={"span": "hours"}).json()["buckets"]
    assert sum(bucket["clicks"] for bucket in hours) == 3
    assert all(bucket["start"] % 3_600_000 == 0 for bucket in hours)
    assert lived.get("/v1/models/m/history", params={"span": "years"}).status_code == 422
    assert lived.get("/v1/models/none/history").status_code == 404


def test_history_reads_and_packs_beside_the_event_loop(
    lived: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, packed = list[str | None](), list[str]()
    counters, compress = service.log.counters, gzip.compress

    def read(spans: tuple[int, ...], since: int = 0, model: str | None = None) -> list[Any]:
        asked.append(model)
        return counters(spans, since, model)

    def pack(content: bytes, level: int) -> bytes:
        packed.append(threading.current_thread().name)
        return compress(content, level)

    monkeypatch.setattr(service.log, "counters", read)
    monkeypatch.setattr(gzip, "compress", pack)
    answer = lived.get("/v1/models/m/history", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.json()["buckets"]) >= 1
    assert asked == ["m"]
    assert packed
    assert all("worker" in name.lower() for name in packed)


def test_a_moment_has_the_last_minutes_alone_though_the_clock_was_set_back(
    lived: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    for n in range(1, 10):
        monkeypatch.setattr(time, "time_ns", lambda n=n: now + n * MINUTE * 10**9)
        with service.log.transaction() as transaction:
            transaction.counters.add("m", {LEARNED: 1})
    minutes = service.log.counters((MINUTE,), model="m")
    monkeypatch.setattr(time, "time", lambda: now / 1e9 - 86_400)
    model = Overview(service, Traffic()).now()["chosen"]
    assert [each["start"] for each in model["minutes"]] == [1000 * row.start for row in minutes if row.span][-3:]


def test_prometheus_is_told_of_clicks_lag_shares_and_alarms(lived: TestClient) -> None:
    page = lived.get("/metrics").text
    assert 'perturank_lists_total{mode="learn",model="m"} 3.0' in page
    assert 'perturank_clicks_total{model="m",place="3"} 1.0' in page
    assert 'perturank_shown_total{model="m",place="1"} 4.0' in page
    assert float(re.findall(r'perturank_learning_lag_seconds{model="m"} (\S+)', page)[0]) > 0
    assert 'perturank_alarm{model="",name="no learner"} 1.0' in page
    assert 'perturank_searches_total{model="m",order="exploit"} 1.0' in page
    assert 'perturank_reciprocal_rank_sum{model="m",order="learn"} 1.5' in page
    assert 'perturank_reward_sum{model="m",order="learn"} 3.0' in page
    for name in ("update_seconds_sum", "uncertain_share_count", "exploration_cost", "places_total", "log_bytes"):
        assert f"perturank_{name}" in page
    assert len(re.findall("^# TYPE perturank_version gauge", page, re.M)) == 1


def test_recent_queries_are_listed_and_explained_as_they_were_ranked(lived: TestClient) -> None:
    queries = lived.get("/v1/models/m/recent").json()["queries"]
    assert [(each["query"], each["documents"]) for each in queries] == [(None, 2), ("q2", 6), ("q1", 6), ("q0", 6)]
    asked = {"recent": queries[1]["number"], "draws": 50}
    by_number = lived.post("/v1/models/m/explain", json=asked).json()
    by_documents = lived.post("/v1/models/m/explain", json={"documents": documents(2), "draws": 50}).json()
    assert by_number["ranking"] == by_documents["ranking"]
    assert sum(sum(each["places"]) for each in by_number["draws"]["documents"]) == 50 * PLACES
    assert len(by_number["graph"]) == 6
    assert 0 <= by_number["certain_pairs"] <= 1
    got = lived.get("/v1/models/m/explain", params={"recent": queries[1]["number"]}).json()
    assert got == by_number | {"draws": None}
    assert lived.post("/v1/models/m/explain", json={"recent": 10**6}).status_code == 404
    assert lived.get("/v1/models/m/explain", params={"recent": 10**6}).status_code == 404
    assert lived.post("/v1/models/m/explain", json={}).status_code == 422


def test_a_deleted_model_leaves_nothing_to_look_at(lived: TestClient) -> None:
    lived.delete("/v1/models/m").raise_for_status()
    lived.put("/v1/models/m", json=MODEL).raise_for_status()
    assert lived.get("/v1/models/m/recent").json()["queries"] == []
    assert lived.get("/v1/models/m/history").json()["buckets"] == []


def test_a_deleted_model_does_not_come_back_in_the_counters(lived: TestClient, service: Service) -> None:
    loaded, learner = service.models.get("m"), Learner(service.log)
    shown = service.rank(loaded, ["a", "b"], rows(2), None).result()
    service.feedback("m", ListFeedback(shown.impression, ["a"], True)).result()
    with service.log.transaction() as transaction:
        changes.delete(transaction, "m")  # by another process: this one does not know it yet
    for refused in (
        service.rank(loaded, ["a", "b"], rows(2), None),
        service.feedback("m", ListFeedback(shown.impression, ["b"], True)),
    ):
        with pytest.raises(NotKnown):
            refused.result()
    service.models.recent.note("m", None, ["a", "b"], rows(2), None)
    Sampler(service).sample()
    service.committer.submit(lambda transaction: None).result()
    learner.step()
    assert service.log.counters((TOTAL, MINUTE)) == []


def test_a_model_that_is_deleted_while_the_learner_looks_has_no_counters(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(log)
    learner = Learner(log)
    with log.transaction() as transaction:
        close_windows(transaction, "m", 1)
    idle = learner.progress.idle

    def late(states: Iterable[State]) -> list[str]:
        found = idle(states)
        with log.transaction() as transaction:
            changes.delete(transaction, "m")
        return found

    monkeypatch.setattr(learner.progress, "idle", late)
    learner.step()
    assert log.counters((TOTAL, MINUTE)) == []


def test_a_model_that_begins_anew_is_counted_from_its_first_list(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 2)
    changed = spec(settings={"learning_rate": 0.5})
    with log.transaction() as transaction:
        position = transaction.append("m", Changed(0, changed))
    shown_and_clicked(log, changed, 2, 30, generation=position)
    assert learner.step() == 2
    (total,) = (row.amounts for row in log.counters((TOTAL,)))
    assert total[LEARNED] == 8


def test_the_newest_query_is_asked_for_its_uncertain_pairs(lived: TestClient, service: Service) -> None:
    service.models.recent.note("m", None, [f"d{i}" for i in range(6)], rows(6), None)
    sampler = Sampler(service)
    sampler.sample()
    sampler.sample()  # nothing new: nothing is added
    service.committer.submit(lambda transaction: None).result()
    (total,) = (row.amounts for row in service.log.counters((TOTAL,)))
    assert total["sampled queries"] == 1
    assert 0 <= total["uncertain share"] <= 1


def test_what_is_asked_walks_through_no_entries_of_the_log(
    lived: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, overview, asked = service.log, Overview(service, Traffic()), list[tuple[str, Sequence[Any]]]()
    assert isinstance(log, SqliteLog)
    me, execute = threading.get_ident(), log.execute

    def noted(connection: sqlite3.Connection, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        if threading.get_ident() == me:
            asked.append((query, values))
        return execute(connection, query, values)

    monkeypatch.setattr(log, "execute", noted)
    overview.now()
    overview.history("m", "minutes")
    overview.prometheus(Metrics())
    assert any("FROM counters" in query for query, _ in asked)
    with log.borrow() as connection:
        plans = [
            row[3] for query, values in asked for row in execute(connection, f"EXPLAIN QUERY PLAN {query}", values)
        ]
    scans = [plan for plan in plans if plan.startswith("SCAN")]
    assert [plan for plan in scans if "subquery" not in plan] == []  # the two rows of which the log's end is the later
    assert {query for query, _ in asked if " log" in query} <= {SqliteLog.end}  # which looks at the last one


def test_events_come_one_after_another_until_the_service_stops(
    lived: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments, now = [0], Overview.now

    def looked(overview: Overview, view: View) -> Any:
        moments[0] += 1
        if moments[0] == 2:
            service.stopping.set()
        return now(overview, view)

    monkeypatch.setattr(Overview, "now", looked)
    with lived.stream("GET", "/v1/live") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        seen = [json.loads(line.removeprefix("data: ")) for line in stream.iter_lines() if line.startswith("data: ")]
    assert len(seen) == 2
    assert all(moment["models"][0]["model"] == "m" for moment in seen)


def test_the_sums_are_what_counting_the_whole_log_gives(http: TestClient, service: Service) -> None:
    chance = random.Random(0)
    http.put("/v1/models/m", json=MODEL | {"exploration": {"share": 0.7}}).raise_for_status()
    wait_until_ready(http)
    for seed in range(40):
        asked = {
            "documents": documents(seed, chance.randint(1, 6)),
            "mode": chance.choice(["learn", "exploit", "shadow"]),
        }
        shown = http.post("/v1/models/m/rank", json=asked).json()
        ids = [each["id"] for each in shown["ranking"]]
        for _ in range(chance.randint(0, 3)):
            said = {"impression": shown["impression"], "clicks": chance.sample(ids, chance.randint(0, len(ids)))}
            http.post("/v1/models/m/feedback", json=said).raise_for_status()
    (total,) = (row.amounts for row in service.log.counters((TOTAL,)))
    expected = recounted(service.log)
    assert {name: total[name] for name in expected} == pytest.approx(expected)
    counted = [name for name in total if name.startswith(("lists", "length", "click", "feedback", "quality", "shadow"))]
    # What a further click takes back again stays as a sum of nothing.
    for name in set(counted) - set(expected):
        assert total[name] == pytest.approx(0.0)


def recounted(log: Log) -> dict[str, float]:
    """Return the counters from every entry of the log."""
    found: Counter[str] = Counter()
    lists, clicks = dict[bytes, Impression](), dict[bytes, set[str]]()
    for record in log.read():
        name = record.impression or b""
        match record.entry:
            case Impression() as shown:
                lists[name], clicks[name] = shown, set()
                found[f"lists {shown.mode}"] += 1
                found[f"length {len(shown.ids)}"] += 1
            case Feedback() as said:
                found["feedback recorded"] += 1
                clicks[name] |= set(said.clicks)
    for name, shown in lists.items():
        for document in clicks[name]:
            found[f"click {shown.ids.index(document) + 1}"] += 1
    amounts = {key: float(n) for key, n in found.items()}
    for name, shown in lists.items():
        events = [(document, "click") for document in clicks[name]]
        for of in (quality, shadow):
            merge(amounts, of.list_amounts(shown))
            merge(amounts, of.event_amounts(shown, [], events, ACTIONS))
    return amounts


def test_models_come_in_pages_by_their_names_and_one_is_told_in_detail(http: TestClient, service: Service) -> None:
    with service.log.transaction() as transaction:
        for i in range(45):
            transaction.append(f"shop-{i:02}", Changed(0, spec()))
        transaction.append("other", Changed(0, spec()))
        transaction.counters.add("shop-44", {LEARNED: 7})
    service.refresh()

    def told(**asked: str | int) -> tuple[list[str], dict[str, int], str]:
        moment = http.get("/v1/overview", params=asked).json()
        return [each["model"] for each in moment["models"]], moment["pages"], moment["chosen"]["model"]

    names, pages, chosen = told()
    assert (len(names), names[:2], chosen) == (20, ["other", "shop-00"], "other")
    assert pages == {"page": 1, "of": 3, "found": 46, "models": 46}
    names, pages, chosen = told(page=3, model="shop-44", filter="SHOP")
    assert (names, chosen) == ([f"shop-{i}" for i in range(40, 45)], "shop-44")
    assert pages == {"page": 3, "of": 3, "found": 45, "models": 46}
    assert told(page=9)[1]["page"] == 3
    assert told(filter="none")[:2] == ([], {"page": 1, "of": 1, "found": 0, "models": 46})
    assert told(model="gone")[2] == "other"
    assert http.get("/v1/overview", params={"model": "shop-44"}).json()["chosen"]["total"]["learned"] == 7
    assert http.get("/v1/overview", params={"page": "0"}).status_code == 422
    assert http.get("/v1/live", params={"page": "x"}).status_code == 422


def test_alarms_of_very_many_models_are_counted_and_prometheus_names_them_all(
    http: TestClient, service: Service
) -> None:
    with service.log.transaction() as transaction:
        for i in range(30):
            transaction.counters.completed[f"m{i}"] = transaction.append(f"m{i}", Changed(0, spec()))
    service.refresh()
    late = time.time_ns() + 60 * 10**9
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: late)
        moment = http.get("/v1/overview").json()
        page = http.get("/metrics").text
    assert len(moment["alarms"]) + moment["more_alarms"] == 31  # nobody learns, and all wait
    assert len(moment["alarms"]) == 8
    assert len(re.findall(r'perturank_alarm{model="m\d+",name="lag"} 1.0', page)) == 30
