"""The client against the real application, and against a server that fails in every way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from perturank import AsyncClient, Client
from perturank.client import Call, ServiceProblem
from perturank.service.api.application import application
from perturank.service.log.sqlite import SqliteLog
from perturank.service.service import Service
from perturank.service.settings import ServeSettings
from perturank.service.spec import Spec

DOCUMENTS = [{"id": "a", "features": [0.1, 2.0]}, {"id": "b", "features": [0.3, 1.0]}]
SHOWN = {"impression": "x", "ranking": [{"id": "a", "certain": True}], "propensity": None, "version": 3}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    log = SqliteLog(tmp_path / "log.db")
    made = Service(log, ServeSettings(documents=16))
    made.put("default", Spec(n_features=2, ranker="random"))
    yield made
    made.close()
    log.close()


def test_rank_and_feedback_against_the_real_application(service: Service) -> None:
    async def talk() -> None:
        transport = httpx.ASGITransport(application(service))
        async with AsyncClient("http://127.0.0.1", transport=transport) as client:
            shown = await client.rank(DOCUMENTS, top=1)
            assert shown.propensity == pytest.approx(0.5)
            assert await client.feedback(shown.impression, shown.ids) == "recorded"
            assert await client.feedback(shown.impression, shown.ids) == "known"
            raw = await client.rank_arrays(["a", "b"], np.zeros((2, 2)))
            assert sorted(raw.ids) == ["a", "b"]
            with pytest.raises(ServiceProblem, match="there is no model 'x'") as problem:
                await client.rank(DOCUMENTS, model="x")
            assert (problem.value.status, problem.value.kind) == (404, "unknown")

    asyncio.run(talk())


def flaky(monkeypatch: pytest.MonkeyPatch, *outcomes: int | Exception) -> tuple[Client, list[str]]:
    """Return a client of a server that answers so, one outcome after another, and the paths that were asked."""
    asked: list[str] = []
    waiting = iter(outcomes)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        outcome = next(waiting)
        if isinstance(outcome, Exception):
            raise outcome
        good = SHOWN if request.url.path.endswith("rank") else {"status": "recorded"}
        return httpx.Response(outcome, json=good if outcome == 200 else {"title": "no", "type": "urn:perturank:x"})

    client = Client("http://service")
    client._http = httpx.Client(base_url="http://service", transport=httpx.MockTransport(answer))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return client, asked


def rank(client: Client) -> object:
    return client.rank(DOCUMENTS).version


def click(client: Client) -> object:
    return client.feedback("x", ["a"])


@pytest.mark.parametrize("outcome", [503, 507, 429, httpx.ConnectError("no"), httpx.ReadTimeout("slow")])
def test_feedback_is_sent_again_after_any_failure(monkeypatch: pytest.MonkeyPatch, outcome: int | Exception) -> None:
    client, asked = flaky(monkeypatch, outcome, outcome, 200)
    assert click(client) == "recorded"
    assert len(asked) == 3


def test_a_list_is_asked_for_again_only_if_it_cannot_have_been_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    client, asked = flaky(monkeypatch, httpx.ConnectError("no"), 503, 200)
    assert rank(client) == 3
    client, asked = flaky(monkeypatch, httpx.ReadTimeout("slow"), 200)
    with pytest.raises(httpx.ReadTimeout):
        rank(client)
    assert len(asked) == 1


@pytest.mark.parametrize("ask", [rank, click])
def test_a_refusal_is_final(monkeypatch: pytest.MonkeyPatch, ask: Callable[[Client], object]) -> None:
    client, asked = flaky(monkeypatch, 422, 200)
    with pytest.raises(ServiceProblem):
        ask(client)
    assert len(asked) == 1


def test_it_gives_up_after_so_many_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    client, asked = flaky(monkeypatch, *[503] * 9)
    with pytest.raises(ServiceProblem):
        click(client)
    assert len(asked) == 5


def test_a_call_without_a_body_sends_none() -> None:
    assert Call("GET", "/x").arguments() == {}
