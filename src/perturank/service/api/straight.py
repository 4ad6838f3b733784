"""The busiest requests go from their connection straight to their endpoints: the way through ASGI costs as much again.

Only plain ones do: one at a time on a connection, with a body of stated and moderate length. All others go the usual
way, to the same endpoints behind the same gate.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from perturank.service.api.asking import Asking, Endpoint
from perturank.service.api.gate import Gate
from perturank.service.keys import Scope

MOST_BYTES = 262_144  # held in memory before anybody has asked who sent them
UNUSUAL = frozenset((b"transfer-encoding", b"expect", b"upgrade"))


class Straight:
    """The way to one endpoint: POST to a path with a model's name in it."""

    def __init__(self, path: str, endpoint: Endpoint, gate: Gate, scope: Scope, stopping: threading.Event) -> None:
        before, after = path.split("{model}")
        self._pattern = re.compile(re.escape(before).encode() + rb"([A-Za-z0-9._-]+)" + re.escape(after).encode())
        self._route, self._endpoint, self._gate, self._scope, self._stopping = path, endpoint, gate, scope, stopping

    def model(self, url: bytes) -> str | None:
        """Return the name in a path that leads here."""
        found = self._pattern.fullmatch(url)
        return None if found is None else found[1].decode()

    async def answered(self, model: str, url: bytes, headers: dict[str, str], address: str, body: bytes) -> Response:
        """Return the answer."""
        params = {"model": model}
        asking = Asking("POST", url.decode(), self._route, params, headers, address, self._stopping, body=body)
        return await self._gate.answered(asking, self._endpoint, self._scope)


def is_plain(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return whether a request with these headers may go straight."""
    names = [name for name, _ in headers]
    if len(set(names)) < len(names) or not UNUSUAL.isdisjoint(names):
        return False
    length = next((value for name, value in headers if name == b"content-length"), b"")
    return re.fullmatch(rb"[0-9]{1,7}", length) is not None and int(length) <= MOST_BYTES


class Whole(RequestResponseCycle):
    """A request that is answered when all of it has come, in one piece; uvicorn sees one of its own in it."""

    def __init__(self, way: Straight, model: str, url: bytes, flow: FlowControl, **usual: Any) -> None:
        super().__init__(flow=flow, **usual)
        self._way, self._model, self._url = way, model, url
        self.parts: list[bytes] = []

    async def answer(self) -> None:
        """Answer, and let go of everything."""
        try:
            await self._answer()
        except BaseException:  # cut off, since it took too long when the service was told to stop
            if not self.response_complete:
                self.transport.close()
            raise
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Hold nothing any more: the garbage collector comes seldom."""
        self.on_response = lambda: None  # it leads back to the connection, which leads here
        self.parts = []

    async def _answer(self) -> None:
        """Answer, unless whoever asked has gone meanwhile."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.scope["headers"]}
        client = self.scope["client"]
        body = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        response = await self._way.answered(self._model, self._url, headers, client[0] if client else "", body)
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        closes = any(name == b"connection" for name, _ in response.raw_headers)
        lines = [STATUS_LINE[response.status_code]]
        for name, value in (*self.default_headers, *response.raw_headers):
            lines += (name, b": ", value, b"\r\n")
        if closes or not self.keep_alive:
            self.keep_alive = False
            lines += () if closes else (b"connection: close\r\n",)
        self.transport.write(b"".join((*lines, b"\r\n", bytes(response.body))))
        self.response_started = self.response_complete = True
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
