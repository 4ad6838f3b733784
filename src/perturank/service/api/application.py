"""The ASGI application: routes behind the gate, and what runs beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from perturank import pages
from perturank.service.api.gate import Endpoint, Gate, lines, problem
from perturank.service.api.health import Health
from perturank.service.api.lists import Lists
from perturank.service.api.models import Models
from perturank.service.api.openapi import document, page
from perturank.service.api.routes import ROUTES
from perturank.service.keys import Keyring, read_keys
from perturank.service.metering import Meter
from perturank.service.service import Service

SECONDS_BETWEEN_LOOKS = 0.25
LOOKS_TO_A_CLOSING = 4


def application(service: Service) -> Starlette:
    """Return the application of this service."""
    settings, meter = service.settings, Meter()
    keys = None if settings.keys is None else read_keys(Path(settings.keys))
    gate = Gate(Keyring(keys, settings.rate), meter, settings.body_bytes)
    parts = {"lists": Lists(service, meter), "models": Models(service), "health": Health(service, meter)}

    def endpoint(handler: str) -> Endpoint:
        part, _, method = handler.partition(".")
        found: Endpoint = getattr(parts[part], method)
        return found

    routes = [Route(r.path, gate(endpoint(r.handler), r.scope), methods=[r.method]) for r in ROUTES]
    described, readable = msgspec.json.encode(document()), page()

    async def openapi(request: Request) -> Response:
        return Response(described, media_type="application/json")

    async def docs(request: Request) -> Response:
        return HTMLResponse(readable)

    routes += [Route("/openapi.json", openapi), Route("/docs", docs), pages.page("/", "dashboard"), pages.assets()]

    @asynccontextmanager
    async def beside(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_look(service)), asyncio.create_task(_compile(service))]
        yield
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    app = Starlette(routes=routes, lifespan=beside, exception_handlers={404: _absent, 405: _absent})
    app.state.service = service
    return app


async def _absent(request: Request, error: Any) -> Response:
    return problem(error.status_code, "http", error.detail, "see /docs", "")


async def _look(service: Service) -> None:
    """Take in what is new several times a second, and close windows now and then."""
    n = 0
    while True:
        n += 1
        try:
            await anyio.to_thread.run_sync(service.refresh)
            if n % LOOKS_TO_A_CLOSING == 0:
                await anyio.to_thread.run_sync(service.close_windows)
        except Exception as error:  # a database that is away for a moment must not stop the looking
            lines.warning("the log cannot be read: %s", error)
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


async def _compile(service: Service) -> None:
    """Compile every length of list of every model, one at a time."""
    while True:
        todo = next(iter(service.host.uncompiled()), None)
        if todo is None or not service.settings.compile_first:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        else:
            await anyio.to_thread.run_sync(service.host.compile, *todo)
