"""`make bench-service`: a real service under load, client and learner on the same machine."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.load import BINARY, JSON, NEW, HttpConnection, Load, Timings
from benchmarks.section import Column, Row, Rows, SectionResult
from perturank.errors import BadInput

MODEL = "bench"
N_BODIES = 200
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
SECONDS_BETWEEN_LOOKS = 0.25
# The service ends when its stdin does, and so with the benchmark, however that ends. It does not read through the
# buffer, whose lock would be held at exit.
COMMAND = """
import os, signal, threading
threading.Thread(target=lambda: (os.read(0, 1), os.kill(os.getpid(), signal.SIGTERM)), daemon=True).start()
from perturank.cli import main
main()
"""

COLUMNS = (
    Column("lists_per_second", "lists/s", "rate"),
    Column("feedback_per_second", "feedback/s", "rate"),
    Column("median_ms", "median ms", "time"),
    Column("p99_ms", "p99 ms", "time"),
    Column("lag_seconds", "lag s", "time"),
    Column("server_mb", "server MB", "size"),
    Column("learner_mb", "learner MB", "size"),
)


@dataclass(frozen=True)
class Scale:
    """What is asked: documents and features of a list, pairs a second, seconds of each part."""

    documents: int = 50
    features: int = 136
    rate: float = 300.0
    seconds: float = 15.0
    soak_minutes: int = 0
    log: str | None = None

    @property
    def n_steps(self) -> int:
        """The number of parts."""
        return 4 + self.soak_minutes


@contextlib.contextmanager
def running_service(log: str | None, documents: int) -> Iterator[tuple[str, int]]:
    """Run `perturank serve` in a folder of its own; yield its address and process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", COMMAND, "serve", "--port", "0", "--log", log or "sqlite:///bench.db"]
        environment = os.environ | {
            "PERTURANK_MAX_DOCUMENTS": str(documents),
            "PERTURANK_REQUESTS_PER_SECOND": "1000000",
        }
        errors = Path(folder) / "err.txt"
        with errors.open("w") as said:
            child = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        try:
            assert child.stdout is not None
            found = re.search(r"http://\S+", child.stdout.readline())
            if found is None:
                raise BadInput("the service did not start", errors.read_text()[-500:])
            yield found.group(), child.pid
        finally:
            child.terminate()
            child.wait()


def bodies(scale: Scale, kind: str) -> list[bytes]:
    """Return requests of random documents, whose features have five digits; as JSON, each is new every time."""
    rng = np.random.default_rng(0)
    made = []
    for q in range(N_BODIES):
        rows = rng.random((scale.documents, scale.features)).round(5)
        ids = [f"document-{q}-{i}" for i in range(scale.documents)]
        if kind == JSON:
            documents = [{"id": name, "features": row} for name, row in zip(ids, rows.tolist(), strict=True)]
            for document in documents:
                document["features"][-1] = float(NEW)
            made.append(json.dumps({"query": f"query {q}", "documents": documents}).encode())
        else:
            made.append(msgspec.msgpack.encode({"ids": ids, "features": rows.astype("<f4").tobytes()}))
    return made


async def _create_model(url: str, scale: Scale) -> None:
    """Create the model, and wait until everything is compiled."""
    spec = json.dumps({"n_features": scale.features}).encode()  # of the service's default ranker
    async with HttpConnection.to(url) as connection:
        await connection.send("PUT", f"/v1/models/{MODEL}", spec)
        while True:
            with contextlib.suppress(BadInput):
                if json.loads(await connection.send("GET", "/readyz"))["to_compile"] == 0:
                    return
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


async def _n_learned(connection: HttpConnection) -> int:
    return int(json.loads(await connection.send("GET", f"/v1/models/{MODEL}"))["learned"])


async def _largest_lag(url: str, timings: Timings, over: asyncio.Event) -> float:
    """Return the longest time between an acknowledged click and the serving of a version that has learned it."""
    worst = 0.0
    async with HttpConnection.to(url) as connection:
        while not over.is_set():
            learned, now = await _n_learned(connection), time.perf_counter()
            if learned < len(timings.acknowledged):
                worst = max(worst, now - timings.acknowledged[learned])
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    return worst


async def _run(load: Load, seconds: float, timings: Timings | None = None) -> tuple[Timings, float]:
    timings, over = Timings() if timings is None else timings, asyncio.Event()
    looking = asyncio.create_task(_largest_lag(load.url, timings, over))
    await load.run(seconds, timings)
    over.set()
    return timings, await looking


def memory_of(pid: int) -> dict[str, float]:
    """Return the memory of the server and of its learner."""
    children = [
        child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    pages = {name: int(Path(f"/proc/{each}/statm").read_text().split()[1]) for name, each in _named(pid, children)}
    return {f"{name}_mb": n * PAGE / 1e6 for name, n in pages.items()}


def _named(pid: int, children: list[str]) -> list[tuple[str, str]]:
    return [("server", str(pid)), *(("learner", child) for child in children[:1])]


def _row(timings: Timings, lag: float | None, pid: int) -> Row:
    return Row(
        {
            "lists_per_second": timings.rate(),
            "feedback_per_second": len(timings.feedback) / timings.seconds if timings.feedback else None,
            "median_ms": 1e3 * timings.quantile(0.5),
            "p99_ms": 1e3 * timings.quantile(0.99),
            "lag_seconds": lag,
            **memory_of(pid),
        }
    )


def measure_service(scale: Scale, advance: Callable[[str], None]) -> SectionResult:
    """Load a service: at the rate asked for, with as many pairs as it can, in binary form, in a soak."""
    began = time.perf_counter()
    with running_service(scale.log, scale.documents) as (url, pid):
        rows = asyncio.run(_measure_parts(url, pid, scale, advance))
    title = f"{scale.documents} documents × {scale.features} features, default ranker, learning on, client included"
    return SectionResult("", title, COLUMNS, rows, time.perf_counter() - began, 0.0)


async def _measure_parts(url: str, pid: int, scale: Scale, advance: Callable[[str], None]) -> Rows:
    await _create_model(url, scale)
    json_bodies, rows, numbers = bodies(scale, JSON), {}, itertools.count()
    paced = Load(url, MODEL, json_bodies, connections=32, rate=scale.rate, numbers=numbers)
    timings = Timings()  # goes on through all parts with feedback, so that lag counts from the first click
    await _run(Load(url, MODEL, json_bodies, connections=4, numbers=numbers), 3.0, timings)
    async with HttpConnection.to(url) as connection:
        # The learner may still compile its first update.
        while await _n_learned(connection) < len(timings.acknowledged):
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    advance("warm")

    async def part(name: str, load: Load, seconds: float) -> None:
        fresh = Timings(acknowledged=timings.acknowledged)
        found, lag = await _run(load, seconds, fresh)
        rows[name] = _row(found, lag if load.with_feedback else None, pid)
        advance(name)

    await part(f"JSON, {scale.rate:g} pairs a second", paced, scale.seconds)
    await part("JSON, as many pairs as it can", Load(url, MODEL, json_bodies, numbers=numbers), scale.seconds)
    await part(
        "binary, as many lists as it can", Load(url, MODEL, bodies(scale, BINARY), BINARY, 16, False), scale.seconds
    )
    for minute in range(1, scale.soak_minutes + 1):
        await part(f"soak, minute {minute}", paced, 60.0)
    return rows
