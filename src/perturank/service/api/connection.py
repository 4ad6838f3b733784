"""What happens before a request is one: broken HTTP, endless headers, clients that never finish asking."""

from __future__ import annotations

import asyncio
import http
import re
import secrets
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from perturank.service.api.problems import problem
from perturank.service.lines import lines

HEADER_BYTES = 65_536


class Connection(HttpToolsProtocol):
    """One connection: what is no HTTP is answered with problem JSON and an id too, and nobody may dawdle."""

    def __init__(self, *arguments: Any, patience: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._patience = patience  # seconds from the first byte that may come to the last header
        self._timer: asyncio.TimerHandle | None = None
        self._n_bytes = 0  # of headers that have not ended yet
        self._n_left = 0  # bytes of a body that the parser does not see
        self._under_way: list[RequestResponseCycle] = []  # one, and those that were sent without waiting for it
        self._broken = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer, and write no answer."""
        self._stop_waiting()
        self._disconnect()
        super().connection_lost(exc)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Answer a client that has said everything and waits; otherwise let the connection go."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return None
        self.cycle.keep_alive = False
        return True

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        """Hand the request over."""
        self._stop_waiting()
        super().on_headers_complete()
        self._under_way = [each for each in (*self._under_way, self.cycle) if not each.response_complete]

    def data_received(self, data: bytes) -> None:
        """Read on."""
        data = self._body_of_upgrade(data)
        if self._broken or not data:
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._pass_over(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._end(400, "this is no HTTP", " ".join(str(error).split()))
        if self._timer is not None:
            self._n_bytes += len(data)
            if self._n_bytes > HEADER_BYTES:
                self._end(431, "the headers are too large", f"send at most {HEADER_BYTES} bytes of them")

    def _pass_over(self, rest: bytes) -> None:
        """Answer as if another protocol had not been proposed; the parser takes what follows for that protocol's."""
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"0")
        if b"transfer-encoding" in headers or not re.fullmatch(rb"[0-9]{1,18}", length):
            self._end(400, "another protocol was proposed together with a body of no stated length", "state it")
            return
        self._n_left = int(length)
        self.cycle.more_body = self._n_left > 0
        self.data_received(rest)

    def _body_of_upgrade(self, data: bytes) -> bytes:
        """Return what follows the body that the parser does not see."""
        if not self._n_left:
            return data
        body, rest = data[: self._n_left], data[self._n_left :]
        self._n_left -= len(body)
        self.on_body(body)
        if not self._n_left:
            self.on_message_complete()
        return rest

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self._patience, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._n_bytes = None, 0

    def _too_slow(self) -> None:
        self._end(408, "the request did not come", f"send its headers within {self._patience:g} seconds")

    def _end(self, status: int, title: str, detail: str) -> None:
        """Refuse, unless an answer is under way: then that is the last."""
        self._broken = True
        self._stop_waiting()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            cycle.keep_alive = False
            return
        self._disconnect()
        self._refuse(status, title, detail)

    def _disconnect(self) -> None:
        """Let nobody answer any more: uvicorn itself tells only the last request."""
        for cycle in self._under_way:
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()

    def _refuse(self, status: int, title: str, detail: str) -> None:
        name = secrets.token_hex(8)
        lines.warning("%s: %s", title, detail, extra={"request": name})
        response = problem(status, "http", title, detail, name)
        head = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}".encode()]
        head += [key + b": " + value for key, value in response.raw_headers]
        self.transport.write(b"\r\n".join([*head, b"", bytes(response.body)]))
        self.transport.close()
