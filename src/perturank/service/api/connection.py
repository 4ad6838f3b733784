"""What happens before a request is one: broken HTTP, endless headers, clients that never finish asking."""

from __future__ import annotations

import asyncio
import http
import re
import secrets
from collections.abc import Sequence
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from perturank.service.api.problems import problem
from perturank.service.api.straight import Straight, Whole, is_plain
from perturank.service.telemetry.logger import logger

HEADER_BYTES = 65_536


class Connection(HttpToolsProtocol):
    """One connection: what is no HTTP is answered with problem JSON and an id too, and nobody may dawdle."""

    def __init__(self, *arguments: Any, patience: float, straight: Sequence[Straight], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._straight = straight
        self._patience = patience  # seconds from the first byte that may come to the last header
        self._timer: asyncio.TimerHandle | None = None
        self._n_bytes = 0  # of headers that have not ended yet, but for those that came with what was before them
        self._has_begun = False  # a message, since the last read
        self._body_timer: asyncio.TimerHandle | None = None
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
        self._has_begun, self._n_bytes = True, 0
        self._wait()

    def on_headers_complete(self) -> None:
        """Hand the request over."""
        self._stop_waiting()
        whole = self._whole()
        if whole is not None:
            self.cycle = whole
        else:
            super().on_headers_complete()
        self._under_way = [each for each in (*self._under_way, self.cycle) if not each.response_complete]

    def _whole(self) -> Whole | None:
        """Return the request if it may go straight to its endpoint."""
        is_free = self.cycle is None or self.cycle.response_complete
        if not is_free or self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1":
            return None
        found = next(((way, model) for way in self._straight if (model := way.model(self.url)) is not None), None)
        if found is None or not is_plain(self.headers):
            return None
        return Whole(
            *(*found, self.url, self.flow),
            scope=self.scope,
            transport=self.transport,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )

    def on_body(self, body: bytes) -> None:
        """Take in a part of the body."""
        if isinstance(self.cycle, Whole):
            self.cycle.parts.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Answer what waited for its end."""
        super().on_message_complete()
        if isinstance(self.cycle, Whole):
            self._stop_waiting()
            task = self.loop.create_task(self.cycle.answer())
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)
        elif self.cycle.response_complete:  # nobody wanted the body, and now it has come to its end
            self.cycle.more_body = False
            self._stop_waiting()
            self._has_begun = True  # what came with its last bytes is not taken for headers
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        data = self._body_of_upgrade(data)
        if self._broken or not data:
            return
        self._unset_keepalive_if_required()
        self._has_begun = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._pass_over(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._end(400, "this is no HTTP", " ".join(str(error).split()))
        if self._timer is not None:
            self._n_bytes += 0 if self._has_begun else len(data)
            if self._n_bytes > HEADER_BYTES:
                self._end(431, "the headers are too large", f"send at most {HEADER_BYTES} bytes of them")
        elif self._is_in_body() and not self._broken:
            self._wait_for_body()

    def _is_in_body(self) -> bool:
        """Return whether more of a body must come that nobody reads: all others are waited for where they are read."""
        cycle = self.cycle
        return cycle is not None and cycle.more_body and (isinstance(cycle, Whole) or cycle.response_complete)

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

    def _wait_for_body(self) -> None:
        if self._body_timer is None:
            self._body_timer = self.loop.call_later(self._patience, self._body_too_slow)

    def _stop_waiting(self) -> None:
        for timer in (self._timer, self._body_timer):
            if timer is not None:
                timer.cancel()
        self._timer, self._body_timer, self._n_bytes = None, None, 0

    def _too_slow(self) -> None:
        self._end(408, "the request did not come", f"send its headers within {self._patience:g} seconds")

    def _body_too_slow(self) -> None:
        if self.cycle.response_complete:
            self._stop_waiting()
            self.transport.close()
            return
        self._end(408, "the body did not come", f"send it within {self._patience:g} seconds")

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
            if isinstance(cycle, Whole) and cycle.more_body:
                cycle.let_go()  # nobody else will: it is answered only when all of it has come

    def _refuse(self, status: int, title: str, detail: str) -> None:
        name = secrets.token_hex(8)
        logger.warning("%s: %s", title, detail, extra={"request": name})
        response = problem(status, "http", title, detail, name)
        head = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}".encode()]
        head += [key + b": " + value for key, value in response.raw_headers]
        self.transport.write(b"\r\n".join([*head, b"", bytes(response.body)]))
        self.transport.close()
