"""When a request is sent again, and when it must not be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from time import time as now

import httpx
import pytest
from client.made_up import DOCUMENTS, SHOWN, Clock, Flaky, Outcome

from perturank import AsyncClient, Client
from perturank.client import FeedbackRequest, NoAnswer, ServiceProblem
from perturank.client.retries import seconds_asked_for

GIVEN = {"status": "recorded"} | SHOWN


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.sleep", clock.sleep)
    monkeypatch.setattr("perturank.client.retries.monotonic", clock.monotonic)
    return clock


def client(flaky: Flaky, **limits: float) -> Client:
    return Client("http://service", transport=flaky.transport, **limits)  # type: ignore[arg-type]


def rank(client: Client) -> object:
    return client.rank(DOCUMENTS).version


def click(client: Client) -> object:
    return client.feedback("x", ["a"])


@pytest.mark.parametrize(
    "outcome",
    [503, 507, 429, 502, 504, httpx.ConnectError("no"), httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("cut")],
)
def test_feedback_is_sent_again_after_any_failure(clock: Clock, outcome: Outcome) -> None:
    flaky = Flaky(outcome, outcome, 200, good=GIVEN)
    assert click(client(flaky)) == "recorded"
    assert len(flaky.asked) == 3
    assert len({request.content for request in flaky.asked}) == 1


@pytest.mark.parametrize("outcome", [503, 507, 429, httpx.ConnectError("no"), httpx.PoolTimeout("full")])
def test_a_list_is_asked_for_again_where_none_was_given(clock: Clock, outcome: Outcome) -> None:
    assert rank(client(Flaky(outcome, 200))) == 3


@pytest.mark.parametrize("outcome", [httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("cut")])
def test_a_list_that_may_have_been_drawn_is_not_asked_for_again(clock: Clock, outcome: Exception) -> None:
    flaky = Flaky(outcome, 200)
    with pytest.raises(NoAnswer, match="one attempt") as problem:
        rank(client(flaky))
    assert problem.value.__cause__ is outcome
    assert len(flaky.asked) == 1
    with pytest.raises(ServiceProblem):
        rank(client(Flaky(502, 200)))


@pytest.mark.parametrize("ask", [rank, click])
@pytest.mark.parametrize("outcome", [422, 500, httpx.LocalProtocolError("an illegal header")])
def test_a_refusal_is_final(clock: Clock, ask: Callable[[Client], object], outcome: Outcome) -> None:
    flaky = Flaky(outcome, 200)
    with pytest.raises((ServiceProblem, NoAnswer)):
        ask(client(flaky))
    assert len(flaky.asked) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.roll_back(1),
        lambda client: client.put_file(b"x"),
        lambda client: client.delete_model("m"),
        lambda client: client.file(),
    ],
)
def test_what_is_not_the_same_done_twice_is_not_sent_after_a_lost_answer(
    clock: Clock, ask: Callable[[Client], object]
) -> None:
    flaky = Flaky(httpx.ReadTimeout("slow"), 200)
    with pytest.raises(NoAnswer, match="allow it more time"):
        ask(client(flaky))
    assert len(flaky.asked) == 1


def test_it_is_patient_for_longer_than_another_server_needs(clock: Clock) -> None:
    flaky = Flaky(httpx.ConnectError("no"))
    with pytest.raises(NoAnswer, match=r"after \d+ attempts in 1\d\.\d s"):
        click(client(flaky))
    assert 12 < clock.now <= 15
    assert all(later <= 2.0 for later in clock.pauses)
    assert clock.pauses[0] <= 0.1 < clock.pauses[2]


def test_pauses_differ_so_that_not_all_come_back_together(clock: Clock) -> None:
    for _ in range(2):
        click(client(Flaky(503, 200, good=GIVEN)))
    assert clock.pauses[0] != clock.pauses[1]


def test_the_service_may_say_how_long_to_wait(clock: Clock) -> None:
    click(client(Flaky(httpx.Response(503, headers={"retry-after": "3"}), 200, good=GIVEN)))
    assert 3 <= clock.pauses[0] < 3.2
    long = Flaky(httpx.Response(503, headers={"retry-after": "60"}), 200, good=GIVEN)
    with pytest.raises(ServiceProblem):  # at once: nobody waits for what would come too late
        click(client(long))
    assert len(clock.pauses) == 1


def test_a_moment_may_be_a_date() -> None:
    assert seconds_asked_for(formatdate(now() + 30, usegmt=True)) == pytest.approx(30, abs=2)
    assert seconds_asked_for("soon") == 0


def test_limits_can_be_other_ones_for_one_request(clock: Clock) -> None:
    flaky = Flaky(503)
    patient = client(flaky, patience=60.0)
    with pytest.raises(ServiceProblem):
        rank(patient.limited(timeout=0.2, patience=0))
    assert len(flaky.asked) == 1
    assert set(flaky.asked[0].extensions["timeout"].values()) == {0.2}
    with pytest.raises(ServiceProblem):
        click(patient)
    assert 50 < clock.now <= 60
    assert set(flaky.asked[-1].extensions["timeout"].values()) == {30.0}


@pytest.mark.parametrize("retries", [0, 2])
def test_the_number_of_attempts_can_be_limited_too(clock: Clock, retries: int) -> None:
    flaky = Flaky(503)
    with pytest.raises(ServiceProblem):
        click(client(flaky, retries=retries))
    assert len(flaky.asked) == retries + 1


def batch(*statuses: str | int) -> httpx.Response:
    return httpx.Response(200, json={"answers": [{"status": each} for each in statuses]})


def test_a_batch_of_which_a_part_was_not_kept_is_sent_again(clock: Clock) -> None:
    flaky = Flaky(batch("recorded", 503), batch("known", "recorded"))
    given = [FeedbackRequest("x", ["a"]), FeedbackRequest("y", ["b"])]
    assert [each["status"] for each in client(flaky).feedback_batch(given)] == ["known", "recorded"]
    assert clock.now >= 1
    flaky = Flaky(batch("recorded", 503))
    assert [each["status"] for each in client(flaky).feedback_batch(given)] == ["recorded", 503]
    assert len(flaky.asked) > 5
    flaky = Flaky(batch("recorded", 404))
    assert [each["status"] for each in client(flaky).feedback_batch(given)] == ["recorded", 404]
    assert len(flaky.asked) == 1


def test_the_asynchronous_client_waits_too() -> None:
    flaky = Flaky(httpx.ConnectError("no"), 503, 200, httpx.ConnectError("no"), good=GIVEN)

    async def later() -> None:
        async with AsyncClient("http://service", transport=flaky.transport) as client:
            assert await client.feedback("x", ["a"]) == "recorded"
            with pytest.raises(NoAnswer):
                await client.limited(patience=0).rank(DOCUMENTS)

    asyncio.run(later())
    assert len(flaky.asked) == 4
