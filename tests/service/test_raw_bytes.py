"""Whatever bytes are sent: no fault of ours, no hang, and every log line names its request."""

from __future__ import annotations

import json
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from helpers.clicking import Say
from helpers.raw_bytes import GOOD_JSON, Attempt, answer, attempt, attempt_at_stream, request
from helpers.serving import Serving

from perturank.service.http.dashboard import MOST_STREAMS

LIVE = b"GET /v1/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
SECONDS = 60.0  # so long may no answer take, on however busy a machine
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
INVALID_HTTP = b"Invalid HTTP request received."
ID = re.compile(rb"^x-request-id: (\S+)\r$", re.M)


@contextmanager
def served(folder: Path) -> Iterator[Serving]:
    started = Serving(folder, PERTURANK_LEARNER="none", PERTURANK_BODY_TIMEOUT="2").ready()
    with started.client() as client:
        client.put_model("m", n_features=2, ranker="random", places=4)
    yield started.ready()
    started.kill()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Start a service that the test may stop, to read all of its log lines."""
    with served(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Start a service that goes on when the test is over."""
    with served(tmp_path_factory.mktemp("shared")) as started:
        yield started


def port(serving: Serving) -> int:
    return int(serving.url.rpartition(":")[2])


@pytest.mark.long
@pytest.mark.parametrize(
    "make, n, n_long, expected",
    [
        (attempt, 600, 14_000, {200, 400, 403, 404, 405, 422}),
        (attempt_at_stream, 300, 3_000, {200, 400, 403, 404, 405}),
    ],
)
def test_no_bytes_break_the_service(
    make: Callable[[random.Random], Attempt],
    n: int,
    n_long: int,
    expected: set[int],
    serving: Serving,
    is_long: bool,
    say: Say,
) -> None:
    chance = random.Random(7)
    attempts = [make(chance) for _ in range(n_long if is_long else n)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda each: answer(port(serving), each, SECONDS), attempts))
    statuses = Counter(int(status) for each in answers for status in STATUS.findall(each))
    say(f"{len(attempts)} attempts: {dict(sorted(statuses.items()))}")
    for sent, got in zip(attempts, answers, strict=True):
        assert not any(status >= b"500" for status in STATUS.findall(got)), (sent, got)
    assert expected <= set(statuses)
    assert httpx.get(f"{serving.url}/healthz", timeout=SECONDS).status_code == 200
    assert serving.stop() == 0
    answered = [name.decode() for each in answers for name in ID.findall(each)]
    not_ours = sum(each.count(INVALID_HTTP) for each in answers)  # uvicorn's own answer
    assert len(answered) + not_ours == sum(count for status, count in statuses.items() if status != 100)
    assert set(answered) <= serving.requests_logged()


def test_streams_that_were_left_make_room_for_others(shared: Serving) -> None:
    for _ in range(MOST_STREAMS + 1):
        with httpx.stream("GET", f"{shared.url}/v1/live", timeout=SECONDS) as stream:
            assert stream.status_code in (200, 429)  # the end of the one before may not be known yet
            next(stream.iter_lines())
    shared.until(lambda: answer(port(shared), Attempt(LIVE, "whole"), SECONDS).startswith(b"HTTP/1.1 200 "))


def test_the_head_of_a_stream_is_all_of_it(shared: Serving) -> None:
    with httpx.Client(base_url=shared.url, timeout=SECONDS, limits=httpx.Limits(max_connections=1)) as http:
        assert http.head("/v1/live").headers["content-type"].startswith("text/event-stream")
        assert http.get("/healthz").status_code == 200  # on the same connection


def test_a_client_that_does_not_finish_its_body_is_told_so(shared: Serving) -> None:
    whole = request(GOOD_JSON)
    with socket.create_connection(("127.0.0.1", port(shared)), timeout=SECONDS) as connection:
        connection.sendall(whole[: whole.index(b"\r\n\r\n") + 10])
        got = b"".join(iter(lambda: connection.recv(65536), b""))
    assert got.startswith(b"HTTP/1.1 408 "), got
    assert b"connection: close" in got


def test_a_body_with_an_upgrade_to_another_protocol_is_refused(shared: Serving) -> None:
    """As Java's HttpClient proposes it, unless it is told to speak HTTP/1.1."""
    sent = request(GOOD_JSON, b"rank", b"connection: upgrade, http2-settings", b"upgrade: h2c")
    ((status, body),) = _answers(shared, sent)
    assert status == b"400"
    assert "only HTTP/1.1 is served" in json.loads(body)["title"]


def _answers(serving: Serving, *parts: bytes) -> list[tuple[bytes, bytes]]:
    """Return status and body of every answer on one connection that is sent these parts, one after another."""
    with socket.create_connection(("127.0.0.1", port(serving)), timeout=SECONDS) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(0.05)
        got = b"".join(iter(lambda: connection.recv(65536), b""))
    found = []
    while got:
        head, _, rest = got.partition(b"\r\n\r\n")
        length = int(re.findall(rb"content-length: (\d+)", head)[0])
        found.append((STATUS.findall(head)[0], rest[:length]))
        got = rest[length:]
    return found


LAST = b"connection: close"


def _ids(body: bytes) -> list[str]:
    return sorted(each["id"] for each in json.loads(body)["ranking"])


@pytest.mark.parametrize(
    "sent",
    [
        [request(GOOD_JSON, b"rank", LAST)],
        [request(GOOD_JSON, b"rank", LAST)[i : i + 40] for i in range(0, len(request(GOOD_JSON, b"rank", LAST)), 40)],
        [request(GOOD_JSON + b" " * 300_000, b"rank", LAST)],
        [request(GOOD_JSON, b"rank?x=1", LAST)],
        [request(GOOD_JSON, b"rank", LAST).replace(b"HTTP/1.1\r", b"HTTP/1.0\r")],
    ],
    ids=["whole", "in pieces", "long", "with a query", "HTTP/1.0"],
)
def test_however_a_request_arrives_its_answer_is_the_same(shared: Serving, sent: list[bytes]) -> None:
    ((status, body),) = _answers(shared, *sent)
    assert status == b"200"
    assert _ids(body) == sorted(each["id"] for each in json.loads(GOOD_JSON)["documents"])[: len(_ids(body))]
    assert set(json.loads(body)) == {"impression", "ranking", "propensity", "version"}


def test_requests_sent_without_waiting_are_answered_in_their_order(shared: Serving) -> None:
    wrong = request(b'{"documents": []}')
    sent = (
        request(GOOD_JSON)
        + wrong
        + request(GOOD_JSON)
        + request(b"{}", b"feedback")
        + request(GOOD_JSON, b"rank", LAST)
    )
    answers = _answers(shared, sent[:300], sent[300:])
    assert [status for status, _ in answers] == [b"200", b"422", b"200", b"422", b"200"]
    assert len({json.loads(body)["impression"] for status, body in answers if status == b"200"}) == 3


def test_a_client_that_goes_in_the_middle_of_its_body_leaves_no_trace(serving: Serving) -> None:
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port(serving)), timeout=SECONDS) as connection:
            connection.sendall(request(GOOD_JSON)[:-10])
    assert httpx.get(f"{serving.url}/healthz", timeout=SECONDS).status_code == 200
    assert serving.stop() == 0
    assert " ERROR " not in (serving.folder / "err.txt").read_text()


def test_the_first_request_makes_no_model_that_cannot_be(serving: Serving) -> None:
    for n in (0, 10_001):
        documents = [{"id": "a", "features": [0] * n}]
        answer = httpx.post(f"{serving.url}/v1/models/default/rank", json={"documents": documents}, timeout=SECONDS)
        assert answer.status_code in (404, 422), answer.text
    assert [each["model"] for each in httpx.get(f"{serving.url}/v1/models", timeout=SECONDS).json()["models"]] == ["m"]
    assert serving.stop() == 0
    assert " ERROR " not in (serving.folder / "err.txt").read_text()
