"""Every operation of either client, against the real application."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
import typing
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from client.made_up import DOCUMENTS, Flaky
from helpers.service_small import lived, spec

from perturank import AsyncClient, Client
from perturank.client import (
    Call,
    Described,
    Event,
    FeedbackRequest,
    NoAnswer,
    RankRequest,
    ServiceProblem,
    ShownList,
    Versions,
)
from perturank.client.operations import Operation, Operations
from perturank.errors import BadInput
from perturank.service.http.app import application
from perturank.service.http.routes import ROUTES, Events
from perturank.service.learner.learner import Learner
from perturank.service.log.sqlite import SqliteLog
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings
from perturank.wire.specification import SpecRequest

NAMES = [name for name, value in vars(Operations).items() if isinstance(value, Operation)]
SAMPLES: dict[str, tuple[Any, ...]] = {
    "rank": (DOCUMENTS,),
    "rank_arrays": (["a"], np.zeros((1, 2))),
    "rank_batch": ([],),
    "feedback": ("x", []),
    "feedback_batch": ([],),
    "ubi_events": ([],),
    "ubi_queries": ([],),
    "explain_impression": ("x",),
    "patch_model": ("default", {}),
    "restore": (1,),
    "delete_model": ("default",),
    "pin": (1,),
    "roll_back": (1,),
    "put_file": (b"",),
    "export": ("json",),
    "evaluate": ("own",),
    "erase": ("s",),
    "test": ("t",),
    "put_test": ("t", ["a", "own"]),
    "stop_test": ("t",),
    "promote": ("t",),
}
Talk = Callable[[AsyncClient], Awaitable[None]]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    log = SqliteLog(tmp_path / "log.db")
    made = Service(log, ServeSettings(max_documents=16))
    made.put("default", SpecRequest(n_features=2, ranker="random"))
    made.models.compile(made.models.get("default"), 16)
    yield made
    made.close()
    log.close()


def talk(service: Service, talk: Talk) -> None:
    """Let a client talk to the application itself."""

    async def whole() -> None:
        transport = httpx.ASGITransport(application(service))
        async with AsyncClient("http://127.0.0.1", transport=transport) as client:
            await talk(client)

    asyncio.run(whole())


def words(name: str) -> Call[Any]:
    """Return an operation's request with any arguments."""
    given = {"put_model": {"model": "default", "n_features": 2}}.get(name, {})
    call: Call[Any] = getattr(Operations, name)(None, *SAMPLES.get(name, ()), **given)
    return call


def test_every_route_but_the_endless_one_is_an_operation() -> None:
    through = [getattr(Operations, name)(None, *SAMPLES[name], test="t") for name in ("rank", "feedback")]
    calls = [*(words(name) for name in NAMES), *through]
    for route in ROUTES:
        path = re.compile(route.path.replace("{model}", "default").replace("{test}", "t"))
        known = any(call.method == route.method and path.fullmatch(call.path) for call in calls)
        assert known is (route.gives is not Events), route.path


def test_a_model_is_made_with_the_words_of_its_specification() -> None:
    parameters = inspect.signature(Operations.put_model).parameters
    assert set(parameters) - {"self", "model", "begin_anew"} == set(SpecRequest.__struct_fields__)


def test_a_live_test_is_begun_asked_and_stopped(service: Service) -> None:
    async def moves(client: AsyncClient) -> None:
        begun = await client.put_test("t", ["default", "own"], learns="none")
        assert (begun["status"], begun["spec"]["arms"]) == ("running", ["default", "own"])  # type: ignore[index]
        shown = await client.rank(DOCUMENTS, test="t", top=1)
        assert await client.feedback(shown.impression, shown.ids, test="t") == "recorded"
        raw = await client.rank_arrays(["a", "b"], np.zeros((2, 2)), test="t")
        assert sorted(raw.ids) == ["a", "b"]
        with pytest.raises(ServiceProblem) as problem:
            await client.promote("t")
        assert problem.value.status == 409
        assert (await client.stop_test("t"))["status"] == (await client.test("t"))["status"] == "stopped"
        assert [each["test"] for each in (await client.tests())["tests"]] == ["t"]

    talk(service, moves)


def test_lists_and_clicks(service: Service) -> None:
    async def moves(client: AsyncClient) -> None:
        shown = await client.rank(DOCUMENTS, top=1, query="shoes", source="somebody")
        assert shown.propensity == pytest.approx(0.5)
        assert await client.feedback(shown.impression, shown.ids) == "recorded"
        assert await client.feedback(shown.impression, shown.ids) == "known"
        raw = await client.rank_arrays(["a", "b"], np.zeros((2, 2)), np.array([1.0, 2.0]), mode="shadow")
        assert raw.ids == ["b", "a"]
        one, two = await client.rank_batch([RankRequest(DOCUMENTS, top=1), RankRequest(DOCUMENTS, mode="exploit")])
        assert (len(one.ids), len(two.ids)) == (1, 2)
        outcomes = await client.feedback_batch(
            [FeedbackRequest(one.impression, one.ids), FeedbackRequest(two.impression, ["z"])]
        )
        assert [each["status"] for each in outcomes] == ["recorded", 422]
        assert "title" in outcomes[1]

    talk(service, moves)


def test_feedback_that_is_not_final_leaves_the_list_open(service: Service) -> None:
    async def moves(client: AsyncClient) -> None:
        shown = await client.rank(DOCUMENTS)
        assert await client.feedback(shown.impression, ["a"], final=False) == "recorded"
        assert await client.feedback(shown.impression, ["b"], final=False) == "recorded"
        assert await client.feedback(shown.impression, [], final=True) == "recorded"
        with pytest.raises(ServiceProblem) as problem:
            await client.feedback((await client.rank(DOCUMENTS, model="default")).impression, ["z"])
        assert problem.value.status == 422

    talk(service, moves)


def test_events_and_how_far_somebody_looked(service: Service) -> None:
    async def moves(client: AsyncClient) -> None:
        shown = await client.rank(DOCUMENTS)
        bought = [Event("a", "purchase", 39.9), Event("b", "add_to_cart")]
        assert await client.feedback(shown.impression, events=bought, seen=2) == "recorded"
        assert await client.feedback(shown.impression, events=[{"id": "a", "action": "purchase"}]) == "known"
        with pytest.raises(ServiceProblem, match="'buy' is not known"):
            await client.feedback(shown.impression, events=[{"id": "a", "action": "buy"}])
        with pytest.raises(BadInput, match="clicks is the string 'a'"):
            await client.feedback(shown.impression, "a")

    talk(service, moves)


def test_models_versions_and_files(service: Service) -> None:
    async def moves(client: AsyncClient) -> None:
        small = spec("pdgd-linear")
        made = await client.put_model("m", n_features=5, ranker="pdgd-linear", places=4, window=60)
        assert (made["version"], made["spec"]["window"]) == (0, 60)
        assert [each["model"] for each in (await client.models())["models"]] == ["default", "m"]
        learner = Learner(service.log)
        for start in (0, 3):
            lived(service.log, small, 3, start, generation=made["generation"])
            learner.step()
        service.refresh()
        listed = await client.versions("m")
        assert [each["version"] for each in listed["versions"]] == [2, 1]
        assert [each["version"] for each in (await client.versions("m", limit=1))["versions"]] == [2]
        assert [each["version"] for each in (await client.versions("m", before=2))["versions"]] == [1]
        assert (await client.pin(1, model="m"))["version"] == 1
        assert (await client.unpin(model="m"))["version"] == 2
        assert (await client.model("m"))["learned"] == 6
        content, short = await client.file("m"), await client.file("m", history=False)
        assert len(short) <= len(content) + 8  # this ranker has no history; headers are padded to eight bytes
        assert (await client.roll_back(1, model="m"))["status"] == "accepted"
        assert (await client.put_file(content, model="m"))["status"] == "accepted"
        assert (await client.erase("somebody", model="m"))["position"] > 0
        await client.delete_model("m")
        with pytest.raises(ServiceProblem, match="there is no model 'm'"):
            await client.model("m")

    talk(service, moves)


def test_explaining_and_watching(service: Service) -> None:
    async def moves(client: AsyncClient) -> None:
        explained = await client.explain(DOCUMENTS, draws=5)
        assert explained["draws"] is not None
        assert explained["draws"]["lists"] == 5
        await client.rank(DOCUMENTS, query="shoes")
        (one,) = (await client.recent())["queries"]
        assert {each["id"] for each in (await client.explain(recent=one["number"]))["ranking"]} == {"a", "b"}
        assert "models" in await client.overview()
        assert await client.history(span="hours")
        assert (await client.alive())["status"] == "alive"
        assert (await client.ready())["status"] in ("ready", "compiling")
        assert "perturank" in await client.metrics()

    talk(service, moves)


def test_a_service_that_is_not_ready_says_so_at_once() -> None:
    not_yet = {"status": "compiling", "to_compile": 3, "faults": []}
    flaky = Flaky(httpx.Response(503, json=not_yet))
    with Client("http://service", transport=flaky.transport) as client:
        assert client.ready() == not_yet
    assert len(flaky.asked) == 1


def test_a_logged_list_is_explained_by_its_name() -> None:
    flaky = Flaky(200, good={"impression": "a/b+c"})
    with Client("http://service", transport=flaky.transport) as client:
        assert dict(client.explain_impression("a/b+c", model="m")) == {"impression": "a/b+c"}
    (asked,) = flaky.asked
    assert (asked.method, asked.url.path, asked.url.params["impression"]) == ("GET", "/v1/models/m/explain", "a/b+c")

    async def later() -> None:
        async with AsyncClient("http://service", transport=flaky.transport) as client:
            assert dict(await client.explain_impression("a/b+c", model="m")) == {"impression": "a/b+c"}

    asyncio.run(later())
    assert flaky.asked[1].url == asked.url


@pytest.mark.parametrize("name", NAMES)
def test_both_clients_send_the_same_words(name: str) -> None:
    given = {"put_model": {"model": "default", "n_features": 2}}.get(name, {})
    flaky = Flaky(422)
    with Client("http://service", transport=flaky.transport) as client, pytest.raises(ServiceProblem):
        getattr(client, name)(*SAMPLES.get(name, ()), **given)

    async def later() -> None:
        async with AsyncClient("http://service", transport=flaky.transport) as client:
            with pytest.raises(ServiceProblem):
                await getattr(client, name)(*SAMPLES.get(name, ()), **given)

    asyncio.run(later())
    first, second = flaky.asked
    assert (first.method, first.url, first.content) == (second.method, second.url, second.content)


def test_what_can_be_left_out_is_left_out() -> None:
    """The service reads such bodies faster."""
    flaky = Flaky(200)
    with Client("http://service", transport=flaky.transport) as client:
        client.rank(DOCUMENTS)
    assert msgspec.json.decode(flaky.asked[0].content) == {"documents": DOCUMENTS}


def test_numbers_may_be_of_numpy() -> None:
    flaky = Flaky(200)
    rows = np.array([[0.5, 2.0], [0.25, 1.0]], np.float32)
    with Client("http://service", transport=flaky.transport) as client:
        client.rank([{"id": "a", "features": rows[0]}, {"id": "b", "features": {"x": rows[1, 0], "y": rows[1, 1]}}])
        sent = msgspec.json.decode(flaky.asked[0].content)["documents"]
        assert sent == [{"id": "a", "features": [0.5, 2.0]}, {"id": "b", "features": {"x": 0.25, "y": 1.0}}]
        with pytest.raises(BadInput, match="cannot be sent; send text, numbers"):
            client.rank([{"id": "a", "features": [object()]}])


def test_answers_are_typed() -> None:
    """`mypy` reads this test too."""
    flaky = Flaky(200)
    with Client("http://service", transport=flaky.transport) as client:
        typing.assert_type(client.rank(DOCUMENTS), ShownList)
        typing.assert_type(client.limited(patience=0).model(), Described)

    async def later() -> None:
        async with AsyncClient("http://service", transport=flaky.transport) as client:
            typing.assert_type(await client.rank(DOCUMENTS), ShownList)
            typing.assert_type(await client.versions(), Versions)

    asyncio.run(later())


def test_a_models_name_cannot_lead_elsewhere() -> None:
    flaky = Flaky(404)
    with Client("http://service", transport=flaky.transport) as client:
        with pytest.raises(ServiceProblem):
            client.model("a/../b?c#d e")
        assert flaky.asked[0].url.raw_path == b"/v1/models/a%2F..%2Fb%3Fc%23d%20e"
        for name in ("", ".", ".."):
            with pytest.raises(BadInput, match="is no name of a model"):
                client.model(name)


def test_methods_show_their_signature_and_what_they_do() -> None:
    with Client("http://service") as client:
        assert list(inspect.signature(client.feedback).parameters) == [
            "impression",
            "clicks",
            "events",
            "seen",
            "final",
            "model",
            "test",
        ]
        assert (client.feedback.__doc__ or "").startswith("Return what these clicks and other events did")


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "localhost", "ftp://x", "http://", "http://x:port"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="is no address of a service; write it like http"):
        Client(url)


def test_a_refusal_says_what_where_and_what_to_do(service: Service) -> None:
    async def moves(client: AsyncClient) -> None:
        with pytest.raises(ServiceProblem) as problem:
            await client.rank(DOCUMENTS, model="x")
        assert (problem.value.status, problem.value.kind) == (404, "unknown")
        said = str(problem.value)
        assert said.startswith("there is no model 'x' (POST http://127.0.0.1/v1/models/x/rank gave 404); ")

    talk(service, moves)


def test_a_fault_of_the_service_names_the_request_by_which_its_log_can_be_searched() -> None:
    client = Client("http://somebody:secret@service/here/", transport=Flaky(500).transport)
    with client, pytest.raises(ServiceProblem) as problem:
        client.model()
    assert str(problem.value) == "no (GET http://service/here/v1/models/default gave 500, request r1); say please"


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, html="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"ranking": 3}),
        httpx.Response(200, content=b"{", headers={"content-type": "application/json"}),
        httpx.Response(404, html="<html>"),
        httpx.Response(200),
    ],
)
def test_something_else_at_the_address_is_told_from_a_service(answer: httpx.Response) -> None:
    client = Client("http://service", transport=Flaky(answer).transport)
    with client, pytest.raises(ServiceProblem, match=r"\(POST http://service/.* gave \d+\); is this the address"):
        client.rank(DOCUMENTS)


def test_nobody_there_is_said_in_one_line() -> None:
    began = time.monotonic()
    with Client("http://127.0.0.1:1", patience=0.2) as client, pytest.raises(NoAnswer) as problem:
        client.model()
    assert time.monotonic() - began < 5
    assert isinstance(problem.value, httpx.TransportError)
    assert isinstance(problem.value.__cause__, httpx.ConnectError)
    assert problem.value.request.method == "GET"
    said = str(problem.value)
    assert said.startswith("GET http://127.0.0.1:1/v1/models/default has no answer after ")
    assert said.endswith("check the address, and that `perturank serve` runs there")
