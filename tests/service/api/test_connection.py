"""What a connection holds on to."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from typing import Any

import uvicorn
from raw_bytes import GOOD_JSON, request
from uvicorn.server import ServerState

from perturank.service.api.application import application
from perturank.service.api.connection import Connection
from perturank.service.api.straight import Whole
from perturank.service.service import Service

SECONDS = 60.0


async def broken_off(service: Service, n: int, patience: float, *, goes: bool) -> list[weakref.ref[Any]]:
    """Send n requests without their last bytes; return what may not be held any more."""
    app, held = application(service), list[weakref.ref[Any]]()
    config, state = uvicorn.Config(app, log_config=None), ServerState()

    def connection() -> Connection:
        made = Connection(config, state, {}, patience=patience, straight=app.state.straight)
        held.append(weakref.ref(made))
        return made

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    end = time.monotonic() + SECONDS
    for _ in range(n):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(request(GOOD_JSON + b" " * 10_000)[:-10])
        await writer.drain()
        while not _whole(state) and time.monotonic() < end:
            await asyncio.sleep(0.01)
        held += [weakref.ref(cycle) for cycle in _whole(state)]
        if not goes:
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()
        while state.connections and time.monotonic() < end:
            await asyncio.sleep(0.01)
    server.close()
    return held


def _whole(state: ServerState) -> list[Whole]:
    ours = [each.cycle for each in state.connections if isinstance(each, Connection)]
    return [cycle for cycle in ours if isinstance(cycle, Whole) and cycle.parts]


def _held(service: Service, patience: float, *, goes: bool) -> list[Any]:
    gc.collect()
    gc.disable()
    try:
        found = asyncio.run(broken_off(service, 3, patience, goes=goes))
        assert len(found) == 6
        return [each() for each in found if each() is not None]
    finally:
        gc.enable()


def test_what_was_broken_off_is_not_held(service: Service) -> None:
    assert _held(service, 30.0, goes=True) == []


def test_what_never_came_to_its_end_is_not_held(service: Service) -> None:
    assert _held(service, 1.0, goes=False) == []


async def talk(service: Service, patience: float, *parts: bytes) -> tuple[bytes, float]:
    """Return all that comes back on one connection that is sent these parts, and after how long it ended."""
    app, state = application(service), ServerState()
    config = uvicorn.Config(app, log_config=None)
    config.load()

    def connection() -> Connection:
        return Connection(config, state, {}, patience=patience, straight=app.state.straight)

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    began = time.monotonic()
    for part in parts:
        writer.write(part)
        await asyncio.sleep(0.1)
    got = await asyncio.wait_for(reader.read(), SECONDS)
    writer.close()
    server.close()
    return got, time.monotonic() - began


def test_a_body_that_nobody_wants_is_passed_over_and_the_connection_goes_on(service: Service) -> None:
    body, last = b"x" * 200_000, request(b"", b"nowhere", b"connection: close")
    got, _ = asyncio.run(talk(service, 30.0, request(body, b"nowhere")[:-1000], body[-1000:] + last))
    assert got.count(b"HTTP/1.1 404 ") == 2
    assert got.count(b"HTTP/1.1 ") == 2


def test_a_body_that_nobody_wants_may_not_take_for_ever(service: Service) -> None:
    whole = request(b"x" * 1000, b"nowhere")
    for parts in ((whole[:-500], b"x"), (whole[:-500], whole[-500:])):  # one that stops, and one that ends
        got, seconds = asyncio.run(talk(service, 1.0, *parts))
        assert got.startswith(b"HTTP/1.1 404 ")
        assert seconds >= 1.0
