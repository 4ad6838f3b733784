"""The ASGI application: routes behind the gate, and what runs beside them."""

from __future__ import annotations

import asyncio
import time
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
from perturank.service.api.added import Added
from perturank.service.api.gate import Endpoint, Gate, lines, problem
from perturank.service.api.health import Health
from perturank.service.api.lists import Lists
from perturank.service.api.models import Models
from perturank.service.api.openapi import document, page
from perturank.service.api.routes import ROUTES
from perturank.service.api.shortcut import Shortcut
from perturank.service.api.watch import Watching
from perturank.service.keys import Keyring, read_keys
from perturank.service.metering import Meter
from perturank.service.recent import Recent
from perturank.service.sampling import Sampler
from perturank.service.service import Service
from perturank.service.watching import Watch

BUSIEST = ("lists.rank", "lists.feedback")
SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_IN_STEP = 0.01  # where batches have a fixed size, somebody may wait for them
SECONDS_TO_A_CLOSING = 1.0
SECONDS_BETWEEN_SAMPLES = 5.0


def application(service: Service, added: Added = Added()) -> Shortcut:
    """Return the application of this service."""
    settings, meter, recent = service.settings, Meter(), Recent()
    watch, sampler = Watch(service, meter.pulse), Sampler(service, recent)
    keys = None if settings.keys is None else read_keys(Path(settings.keys))
    gate = Gate(Keyring(keys, settings.rate), meter, settings.body_bytes)
    parts = {
        "lists": Lists(service, meter, recent),
        "models": Models(service, recent),
        "health": Health(watch, meter),
        "watch": Watching(service, watch, recent),
    }

    def endpoint(handler: str) -> Endpoint:
        part, _, method = handler.partition(".")
        found: Endpoint = getattr(parts[part], method)
        return found

    gated = {r: gate(endpoint(r.handler), r.scope) for r in ROUTES}
    by_row = {r: Route(r.path, gated[r], methods=[r.method]) for r in ROUTES}
    routes = list(by_row.values())
    quick = {r.handler.partition(".")[2]: (by_row[r], gated[r]) for r in ROUTES if r.handler in BUSIEST}
    described, readable = msgspec.json.encode(document()), page()

    async def openapi(request: Request) -> Response:
        return Response(described, media_type="application/json")

    async def docs(request: Request) -> Response:
        return HTMLResponse(readable)

    routes += [Route("/openapi.json", openapi), Route("/docs", docs), pages.page("/", "dashboard"), pages.assets()]
    routes += [Route(path, gate(found, "admin"), methods=[method]) for method, path, found in added.endpoints]
    routes += added.pages

    @asynccontextmanager
    async def beside(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(task) for task in (_look(service), _compile(service), _sample(service, sampler))]
        if added.work is not None:
            tasks.append(asyncio.ensure_future(added.work()))
        yield
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    app = Starlette(routes=routes, lifespan=beside, exception_handlers={404: _absent, 405: _absent})
    app.state.service = service
    return Shortcut(app, quick)


async def _absent(request: Request, error: Any) -> Response:
    return problem(error.status_code, "http", error.detail, "see /docs", "")


async def _look(service: Service) -> None:
    """Take in what is new several times a second, and close windows now and then."""
    closed = time.monotonic()
    while True:
        try:
            await anyio.to_thread.run_sync(service.refresh)
            if time.monotonic() >= closed + SECONDS_TO_A_CLOSING:
                closed = time.monotonic()
                await anyio.to_thread.run_sync(service.close_windows)
        except Exception as error:  # a database that is away for a moment must not stop the looking
            lines.warning("the log cannot be read: %s", error)
        in_step = any(held.spec.batch is not None for held in service.host.all())
        await asyncio.sleep(SECONDS_IN_STEP if in_step else SECONDS_BETWEEN_LOOKS)


async def _sample(service: Service, sampler: Sampler) -> None:
    """Ask now and then how certain the orders of the newest queries are, when there is nothing more urgent."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_SAMPLES)
        if not service.settings.compile_first or next(iter(service.host.uncompiled()), None) is None:
            await anyio.to_thread.run_sync(sampler.look)


async def _compile(service: Service) -> None:
    """Compile every length of list of every model, one at a time."""
    while True:
        todo = next(iter(service.host.uncompiled()), None)
        if todo is None or not service.settings.compile_first:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        else:
            await anyio.to_thread.run_sync(service.host.compile, *todo)
