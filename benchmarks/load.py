"""Load on a running service, from one process that itself costs little: plain HTTP/1.1 over kept connections."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import numpy as np

from perturank.errors import BadInput

BINARY, JSON = "application/msgpack", "application/json"
NEW = b"0.9999999"  # stands in a body for a number that no other request has


class HttpConnection:
    """One kept connection: a request at a time."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host, self._reader, self._writer = host, reader, writer

    @classmethod
    @asynccontextmanager
    async def to(cls, url: str) -> AsyncIterator[HttpConnection]:
        """Open a connection to the service."""
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            yield cls(parts.netloc, reader, writer)
        finally:
            writer.close()

    def head(self, method: str, path: str, kind: str, n_bytes: int) -> bytes:
        """Return the lines before the body."""
        lines = (
            f"{method} {path} HTTP/1.1",
            f"host: {self._host}",
            f"content-type: {kind}",
            f"content-length: {n_bytes}",
        )
        return "\r\n".join((*lines, "", "")).encode()

    async def send(self, method: str, path: str, body: bytes = b"", kind: str = JSON) -> bytes:
        """Send a request and return the body of the answer; a refusal ends the measurement."""
        self._writer.write(self.head(method, path, kind, len(body)) + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = head.lower().index(b"content-length:") + 15
        content = await self._reader.readexactly(int(head[length : head.index(b"\r", length)]))
        if not 200 <= int(head[9:12]) < 300:
            raise BadInput(f"the service answered {head[9:12].decode()}", content.decode(errors="replace")[:300])
        return content


@dataclass
class Timings:
    """When each request was due and how long its answer took, in seconds; `acknowledged` are times of feedback."""

    rank: list[float] = field(default_factory=list)
    feedback: list[float] = field(default_factory=list)
    acknowledged: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def rate(self) -> float:
        """Return lists a second."""
        return len(self.rank) / self.seconds

    def quantile(self, q: float) -> float:
        """Return this quantile over all requests."""
        return float(np.quantile(self.rank + self.feedback, q))


@dataclass
class Load:
    """Who sends what, how often: `rate` pairs a second; None: each connection as fast as it is answered."""

    url: str
    model: str
    bodies: Sequence[bytes]
    kind: str = JSON
    connections: int = 16
    with_feedback: bool = True
    rate: float | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)
    _turn: int = 0

    async def run(self, seconds: float, into: Timings | None = None) -> Timings:
        """Send requests for so many seconds and return their timings."""
        timings, began = into or Timings(), time.perf_counter()
        self._turn = 0
        await asyncio.gather(*[self._run_connection(timings, began, began + seconds) for _ in range(self.connections)])
        timings.seconds += time.perf_counter() - began
        return timings

    async def _run_connection(self, timings: Timings, began: float, end: float) -> None:
        async with HttpConnection.to(self.url) as connection:
            while True:
                turn = self._turn
                self._turn += 1
                due = time.perf_counter() if self.rate is None else began + turn / self.rate
                if due >= end:
                    return
                await asyncio.sleep(max(due - time.perf_counter(), 0))
                body = self.bodies[turn % len(self.bodies)].replace(NEW, b"0.%07d" % next(self.numbers))
                await self._send_pair(connection, timings, due, body, turn)

    async def _send_pair(self, connection: HttpConnection, into: Timings, due: float, body: bytes, turn: int) -> None:
        path = f"/v1/models/{self.model}"
        answer = await connection.send("POST", f"{path}/rank", body, self.kind)
        into.rank.append(time.perf_counter() - due)
        if not self.with_feedback:
            return
        shown = json.loads(answer)
        clicks = [shown["ranking"][turn % 3]["id"]]
        said = json.dumps({"impression": shown["impression"], "clicks": clicks, "final": True}).encode()
        sent = time.perf_counter()
        await connection.send("POST", f"{path}/feedback", said)
        now = time.perf_counter()
        into.feedback.append(now - sent)
        into.acknowledged.append(now)
