"""The ASGI application: routes behind the gate, and what runs beside them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from perturank import pages
from perturank.service.api.added import Added
from perturank.service.api.asking import Asking, Endpoint
from perturank.service.api.beside import work
from perturank.service.api.gate import Gate
from perturank.service.api.health import Health
from perturank.service.api.lists import Lists
from perturank.service.api.models import Models
from perturank.service.api.openapi import PAGE_POLICY, document, page
from perturank.service.api.routes import ROUTES
from perturank.service.api.routes import Route as Row
from perturank.service.api.straight import Straight
from perturank.service.api.watch import Watching
from perturank.service.keys import Keyring
from perturank.service.metering import Meter
from perturank.service.recent import Recent
from perturank.service.sampling import Sampler
from perturank.service.service import Service
from perturank.service.watching import Watch

BUSIEST = ("lists.rank", "lists.feedback")


def application(service: Service, added: Added = Added()) -> Starlette:
    """Return the application of this service; `state.straight` are the ways past it."""
    settings, meter, recent = service.settings, Meter(), Recent()
    watch = Watch(service, meter.pulse)
    keyring = Keyring(None if settings.keys is None else Path(settings.keys), settings.rate)
    sizes = settings.body_bytes, settings.file_bytes
    gate, wide = (Gate(keyring, meter, most, settings.patience) for most in sizes)
    health = Health(watch, meter)
    watch.failing = lambda: health.failing
    parts = {
        "lists": Lists(service, meter, recent),
        "models": Models(service, recent),
        "health": health,
        "watch": Watching(service, watch, recent),
    }

    def endpoint(handler: str) -> Endpoint:
        part, _, method = handler.partition(".")
        found: Endpoint = getattr(parts[part], method)
        return found

    def gated(row: Row) -> Route:
        by = wide if row.takes is bytes else gate
        return Route(row.path, by(endpoint(row.handler), row.scope), methods=[row.method])

    routes = [gated(row) for row in ROUTES]
    straight = [
        Straight(row.path, endpoint(row.handler), gate, "serve", service.stopping)
        for row in ROUTES
        if row.handler in BUSIEST
    ]
    described, readable = msgspec.json.encode(document()), page()

    async def openapi(asking: Asking) -> Response:
        return Response(described, media_type="application/json")

    async def docs(asking: Asking) -> Response:
        return HTMLResponse(readable, headers=pages.SAFELY | {"content-security-policy": PAGE_POLICY})

    async def absent(request: Request, error: Exception) -> Response:
        async def refuse(asking: Asking) -> Response:
            raise error

        response = await gate(refuse, None)(request)
        if response.status_code == 405:  # every method of the path, not only those of its first route
            response.headers["allow"] = ", ".join(_methods(routes, request.scope["path"]))
        return response

    routes += [Route("/openapi.json", gate(openapi, None)), Route("/docs", gate(docs, None))]
    routes += [Route(path, gate(found, "admin"), methods=[method]) for method, path, found in added.endpoints]
    shown = (pages.page("/", "dashboard"), pages.assets(), *added.pages)
    routes += [Route(each.path, gate(each.endpoint, None)) for each in shown]

    def beside(app: Starlette) -> AbstractAsyncContextManager[None]:
        return work(service, health, Sampler(service, recent), added.work)

    app = Starlette(routes=routes, lifespan=beside, exception_handlers={404: absent, 405: absent})
    app.router.redirect_slashes = False  # a redirect would go past the gate
    app.state.service, app.state.straight = service, straight
    return app


def _methods(routes: Sequence[Route], path: str) -> list[str]:
    """Return what may be asked of this path."""
    return sorted({method for route in routes if route.path_regex.match(path) for method in route.methods or ()})
