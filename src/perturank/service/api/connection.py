"""What happens before a request is one: broken HTTP, endless headers, clients that never finish asking."""

from __future__ import annotations

import asyncio
import http
import secrets

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from perturank.service.api.problems import problem
from perturank.service.lines import lines

SECONDS_TO_ASK = 20.0  # from the first byte that may come to the last header
HEADER_BYTES = 65_536


class Connection(HttpToolsProtocol):
    """One connection: what is no HTTP is answered with problem JSON and an id too, and nobody may dawdle."""

    _timer: asyncio.TimerHandle | None = None
    _n_bytes = 0  # of headers that have not ended yet
    _broken = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        """Hand the request over."""
        self._stop_waiting()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        if self._broken:
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the request is answered as if it had not asked for another protocol
        except httptools.HttpParserError as error:
            self._end(400, "this is no HTTP", " ".join(str(error).split()))
        if self._timer is not None:
            self._n_bytes += len(data)
            if self._n_bytes > HEADER_BYTES:
                self._end(431, "the headers are too large", f"send at most {HEADER_BYTES} bytes of them")

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(SECONDS_TO_ASK, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._n_bytes = None, 0

    def _too_slow(self) -> None:
        self._end(408, "the request did not come", f"send its headers within {SECONDS_TO_ASK:g} seconds")

    def _end(self, status: int, title: str, detail: str) -> None:
        """Refuse, unless an answer is under way: then that is the last."""
        self._broken = True
        self._stop_waiting()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            cycle.keep_alive = False
            return
        if cycle is not None and not cycle.response_complete:  # its body is broken, and nobody need answer it
            cycle.disconnected = True
            cycle.message_event.set()
        self._refuse(status, title, detail)

    def _refuse(self, status: int, title: str, detail: str) -> None:
        name = secrets.token_hex(8)
        lines.warning("%s: %s", title, detail, extra={"request": name})
        response = problem(status, "http", title, detail, name)
        head = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}".encode()]
        head += [key + b": " + value for key, value in response.raw_headers]
        self.transport.write(b"\r\n".join([*head, b"", bytes(response.body)]))
        self.transport.close()
