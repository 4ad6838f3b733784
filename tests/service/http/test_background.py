"""Background tasks go on, whatever fails in them."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable

import pytest
from helpers.service_small import wait_until_ready
from starlette.testclient import TestClient

from perturank.service.http import background
from perturank.service.http.app import application
from perturank.service.http.background import Health, Sampler, background_tasks
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.log import Log
from perturank.service.log.records import Impression
from perturank.service.serving.models import LoadedModel, LoadedModels
from perturank.service.serving.overview import Overview
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings
from perturank.service.telemetry.prometheus import Metrics
from perturank.wire.specification import SpecRequest

SECONDS = 60.0


def test_a_model_that_cannot_be_compiled_does_not_stop_the_others(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiles = LoadedModels.compile

    def compile_but_one(models: LoadedModels, loaded: LoadedModel, length: int) -> None:
        if loaded.name == "a":
            raise MemoryError("too large")
        compiles(models, loaded, length)

    monkeypatch.setattr(LoadedModels, "compile", compile_but_one)
    for n_features, name in ((2, "a"), (3, "b")):
        service.put(name, SpecRequest(n_features=n_features, ranker="random", places=4))
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        end = time.monotonic() + SECONDS
        while http.get("/readyz").json()["to_compile"] > 1 and time.monotonic() < end:
            time.sleep(0.02)
        assert http.get("/readyz").json()["status"] == "failing"
        assert [loaded.name for loaded, _ in service.models.uncompiled()] == ["a"]
        service.delete("a")
        while http.get("/readyz").status_code != 200 and time.monotonic() < end:
            time.sleep(0.02)
        assert http.get("/readyz").json()["status"] == "ready"


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def test_whatever_fails_in_a_task_is_reported_and_retried(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perturank.service.http.background.SECONDS_BETWEEN_SAMPLES", 0.01)
    metrics, sampler = Metrics(), Sampler(service)
    health = Health(Overview(service, metrics.traffic), metrics)

    def broken(models: LoadedModels) -> list[LoadedModel]:
        raise KeyError("m")

    async def run() -> None:
        async with background_tasks(service, health, sampler, None):
            with monkeypatch.context() as patched:
                patched.setattr(LoadedModels, "all", broken)
                await until(lambda: len(health.failing) == 4)
            service.put("m", SpecRequest(n_features=2, ranker="random", places=4))
            await until(lambda: health.failing == [] and next(iter(service.models.uncompiled()), None) is None)

    asyncio.run(run())


def test_an_added_task_that_ends_in_a_failure_is_reported(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    health = Health(Overview(service, metrics.traffic), metrics)

    async def added() -> None:
        raise OSError("no disk")

    async def run() -> None:
        async with background_tasks(service, health, Sampler(service), added):
            await until(lambda: bool(health.failing))

    asyncio.run(run())
    assert health.failing == ["a background task has ended: no disk"]
    assert "a background task has ended" in caplog.text


def test_a_model_that_vanishes_while_all_are_listed_harms_nobody(service: Service) -> None:
    stopping, seen = threading.Event(), set[tuple[str, ...]]()

    def come_and_go() -> None:
        while not stopping.is_set():
            service.put("b", SpecRequest(n_features=2, ranker="random", places=4))
            service.delete("b")

    service.put("a", SpecRequest(n_features=2, ranker="random", places=4))
    other = threading.Thread(target=come_and_go)
    other.start()
    end = time.monotonic() + SECONDS
    for n in itertools.count():
        seen.add(tuple(loaded.name for loaded in service.models.all()))
        if (n > 10_000 and len(seen) > 1) or time.monotonic() > end:
            break
    stopping.set()
    other.join()
    assert seen == {("a",), ("a", "b")}


def test_a_process_that_has_been_ready_stays_so_while_it_compiles_more(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiles, may_compile = LoadedModels.compile, threading.Event()

    def slowly(models: LoadedModels, loaded: LoadedModel, length: int) -> None:
        assert may_compile.wait(SECONDS)
        compiles(models, loaded, length)

    monkeypatch.setattr(LoadedModels, "compile", slowly)
    service.put("m", SpecRequest(n_features=2, ranker="random", places=4))
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        answer = http.get("/readyz")
        assert (answer.status_code, answer.json()["status"], answer.json()["to_compile"]) == (503, "compiling", 1)
        may_compile.set()
        end = time.monotonic() + SECONDS
        while http.get("/readyz").status_code != 200 and time.monotonic() < end:
            time.sleep(0.02)
        may_compile.clear()
        service.put("twin", SpecRequest(n_features=2, ranker="random", places=4))
        assert http.get("/readyz").json()["to_compile"] == 0  # models of one kind share their programs
        service.put("n", SpecRequest(n_features=3, ranker="random", places=4))
        answer = http.get("/readyz")
        assert (answer.status_code, answer.json()["status"], answer.json()["to_compile"]) == (200, "compiling", 1)
        may_compile.set()


def test_lists_are_answered_in_the_callers_own_order_while_their_program_is_compiled(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiles, may_compile = LoadedModels.compile, threading.Event()

    def slowly(models: LoadedModels, loaded: LoadedModel, length: int) -> None:
        assert may_compile.wait(SECONDS)
        compiles(models, loaded, length)

    monkeypatch.setattr(LoadedModels, "compile", slowly)
    documents = [{"id": f"d{i}", "features": [i, 1], "prior": i % 3} for i in range(6)]
    learner = Learner(service.log)
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        shown = {
            mode: http.post("/v1/models/default/rank", json={"documents": documents, "mode": mode, "top": 4}).json()
            for mode in ("learn", "exploit", "shadow")
        }
        for each in shown.values():
            assert [one["id"] for one in each["ranking"]] == ["d2", "d5", "d1", "d4"]
            assert all(one["certain"] for one in each["ranking"])
            assert (each["fallback"], each["propensity"]) == (True, 1.0)
        entries = [record.entry for record in service.log.read() if isinstance(record.entry, Impression)]
        assert [(entry.mode, entry.log_propensity) for entry in entries] == [("own", 0.0)] * 3
        said = {"impression": shown["learn"]["impression"], "clicks": ["d1"], "final": True}
        assert http.post("/v1/models/default/feedback", json=said).status_code == 200
        page = {"documents": documents, "continues": shown["learn"]["impression"]}
        may_compile.set()
        wait_until_ready(http)
        answer = http.post("/v1/models/default/rank", json={"documents": documents}).json()
        assert "fallback" not in answer
        following = http.post("/v1/models/default/rank", json=page).json()
        assert ([one["id"] for one in following["ranking"]], following["fallback"]) == (["d0", "d3"], True)
    assert learner.step() == 1
    assert rebuild(service.log, "default").differs is None


def test_without_compiling_first_only_what_was_asked_for_is_compiled(log: Log) -> None:
    service = Service(log, ServeSettings(max_documents=64, compile_first=False))
    service.put("m", SpecRequest(n_features=2, ranker="random", places=4))
    documents = [{"id": f"d{i}", "features": [i, 1]} for i in range(20)]
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        end = time.monotonic() + SECONDS
        while http.post("/v1/models/m/rank", json={"documents": documents}).json().get("fallback"):
            assert time.monotonic() < end
            time.sleep(0.02)
    assert [length for _, length in service.models.uncompiled()] == [16, 64]
    service.close()


def test_lengths_that_nobody_asked_for_wait_for_the_first_version(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "SECONDS_TO_LEARN_FIRST", 10 * SECONDS)
    service, learner = Service(log, ServeSettings(max_documents=64)), Learner(log)
    documents = [{"id": f"d{i}", "features": [i, 1]} for i in range(20)]
    with TestClient(application(service), base_url="http://127.0.0.1") as http:
        shown = http.post("/v1/models/default/rank", json={"documents": documents}).json()
        end = time.monotonic() + SECONDS
        while http.post("/v1/models/default/rank", json={"documents": documents}).json().get("fallback"):
            assert time.monotonic() < end
            time.sleep(0.02)
        assert http.get("/readyz").json()["to_compile"] == 2
        said = {"impression": shown["impression"], "clicks": ["d1"], "final": True}
        http.post("/v1/models/default/feedback", json=said).raise_for_status()
        assert learner.step() == 1
        wait_until_ready(http)
    assert list(service.models.uncompiled()) == []
    service.close()
