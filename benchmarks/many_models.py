"""`make bench-models`: many small models in one service, of which some have traffic, before and after a restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.load import HttpConnection
from benchmarks.section import Column, Row, SectionResult
from benchmarks.service import SECONDS_BETWEEN_LOOKS, memory_of, running_service
from perturank.errors import BadInput

SETTINGS = {"widths": [16]}
CONNECTIONS = 4
DOCUMENTS = 20
SECONDS_TO_LEARN = 300.0

COLUMNS = (
    Column("start_seconds", "start s", "time"),
    Column("ready_seconds", "ready s", "time"),
    Column("version_seconds", "first version s", "time"),
    Column("median_ms", "median ms", "time"),
    Column("p99_ms", "p99 ms", "time"),
    Column("server_mb", "server MB", "size"),
    Column("learner_mb", "learner MB", "size"),
    Column("load", "load", "rate"),
)


@dataclass(frozen=True)
class ManyModels:
    """How many models there are, how many of them have traffic, and how much: lists with a click each."""

    models: int = 1000
    active: int = 50
    lists: int = 20
    features: int = 20

    @property
    def n_steps(self) -> int:
        """The number of parts."""
        return 4


def measure_models(scale: ManyModels, advance: Callable[[str], None]) -> SectionResult:
    """Make the models, let some learn, restart the service, and let them learn again."""
    began, rows = time.perf_counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        log = f"sqlite:///{folder}/bench.db"
        with _started(log) as (url, pid, start):
            ready = asyncio.run(_make(url, scale))
            advance("models are made")
            rows["new"] = asyncio.run(_drive(url, pid, scale, start, ready, first=scale.active - 1))
            advance("models have learned")
        with _started(log) as (url, pid, start):
            ready = asyncio.run(_wait_until_ready(url))
            advance("the service is back")
            rows["restarted"] = asyncio.run(_drive(url, pid, scale, start, ready, first=0))
            advance("models have learned again")
    title = f"{scale.models} models × {scale.features} features, {SETTINGS}, {scale.active} with traffic"
    return SectionResult("", title, COLUMNS, rows, time.perf_counter() - began, 0.0)


@contextlib.contextmanager
def _started(log: str) -> Iterator[tuple[str, int, float]]:
    """Run a service on this log; yield its address, its process and how long it took to start."""
    began = time.perf_counter()
    with running_service(log, DOCUMENTS) as (url, pid):
        yield url, pid, time.perf_counter() - began


def _name(number: int) -> str:
    return f"model-{number:04d}"


async def _make(url: str, scale: ManyModels) -> float:
    spec = json.dumps({"n_features": scale.features, "settings": SETTINGS}).encode()
    async with HttpConnection.to(url) as connection:
        for number in range(scale.models):
            await connection.send("PUT", f"/v1/models/{_name(number)}", spec)
    return await _wait_until_ready(url)


async def _wait_until_ready(url: str) -> float:
    """Return how long it took until every program was compiled."""
    began = time.perf_counter()
    async with HttpConnection.to(url) as connection:
        while True:
            with contextlib.suppress(BadInput):
                await connection.send("GET", "/readyz")
                return time.perf_counter() - began
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


async def _drive(url: str, pid: int, scale: ManyModels, start: float, ready: float, first: int) -> Row:
    """Send a click to one model and wait for its version, then traffic to all that are active."""
    rng, times = np.random.default_rng(0), list[float]()
    async with HttpConnection.to(url) as connection:
        before = await _version(connection, first)
        await _send_pair(connection, first, scale, rng, [])
        version = await _wait_for_version(connection, first, before)
    turns = iter([number % scale.active for number in range(scale.active * scale.lists)])

    async def send() -> None:
        async with HttpConnection.to(url) as connection:
            for number in turns:
                await _send_pair(connection, number, scale, rng, times)

    await asyncio.gather(*[send() for _ in range(CONNECTIONS)])
    async with HttpConnection.to(url) as connection:
        for number in range(scale.active):
            await _wait_for_version(connection, number, 0)
    return Row(
        {
            "start_seconds": start,
            "ready_seconds": ready,
            "version_seconds": version,
            "median_ms": 1e3 * float(np.quantile(times, 0.5)),
            "p99_ms": 1e3 * float(np.quantile(times, 0.99)),
            "load": os.getloadavg()[0],
            **memory_of(pid),
        }
    )


async def _send_pair(
    connection: HttpConnection, number: int, scale: ManyModels, rng: np.random.Generator, times: list[float]
) -> None:
    path, rows = f"/v1/models/{_name(number)}", rng.random((DOCUMENTS, scale.features)).round(5).tolist()
    body = json.dumps({"documents": [{"id": f"d{i}", "features": row} for i, row in enumerate(rows)]}).encode()
    began = time.perf_counter()
    shown = json.loads(await connection.send("POST", f"{path}/rank", body))
    times.append(time.perf_counter() - began)
    clicks = [shown["ranking"][int(rng.integers(3))]["id"]]
    said = json.dumps({"impression": shown["impression"], "clicks": clicks, "final": True}).encode()
    await connection.send("POST", f"{path}/feedback", said)


async def _version(connection: HttpConnection, number: int) -> int:
    return int(json.loads(await connection.send("GET", f"/v1/models/{_name(number)}"))["version"])


async def _wait_for_version(connection: HttpConnection, number: int, after: int) -> float:
    """Return how long it took until a version behind this one was served."""
    began = time.perf_counter()
    while await _version(connection, number) <= after:
        if time.perf_counter() - began > SECONDS_TO_LEARN:
            raise BadInput(f"{_name(number)} has not learned in {SECONDS_TO_LEARN:g} seconds", "see the log lines")
        await asyncio.sleep(0.05)
    return time.perf_counter() - began
