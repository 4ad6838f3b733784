"""The ASGI application: routes behind the gate, and what runs beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
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
from perturank.service.api.openapi import document
from perturank.service.api.page import PAGE_POLICY, page
from perturank.service.api.routes import ROUTES
from perturank.service.api.routes import Route as Row
from perturank.service.api.straight import Straight
from perturank.service.api.watch import Watching
from perturank.service.keys import Keyring
from perturank.service.sampler import Sampler
from perturank.service.service import Service
from perturank.service.telemetry.overview import Overview
from perturank.service.telemetry.prometheus import Metrics
from perturank.service.telemetry.recent import Recent

WITH_BODIES = ("POST", "PUT")
BUSIEST = ("lists.rank", "lists.feedback")


class Parts:
    """What answers for one service, each made once."""

    def __init__(self, service: Service, added: Added = Added()) -> None:
        settings, metrics, self.recent = service.settings, Metrics(), Recent()
        service.host.forget = self.recent.forget
        overview = Overview(service, metrics.traffic)
        self.health = Health(overview, metrics)
        overview.failing = lambda: self.health.failing
        overview.pages = [each.path for each in added.pages]
        keyring = Keyring(None if settings.keys is None else Path(settings.keys), settings.rate)
        sizes = settings.body_bytes, settings.file_bytes
        self.gate, self.gate_for_files = (Gate(keyring, metrics, most, settings.patience) for most in sizes)
        self._by_name = {
            "lists": Lists(service, metrics, self.recent),
            "models": Models(service, self.recent),
            "health": self.health,
            "watch": Watching(service, overview, self.recent),
        }

    def endpoint(self, row: Row) -> Endpoint:
        """Return the method that a row of the table names."""
        part, _, method = row.handler.partition(".")
        found: Endpoint = getattr(self._by_name[part], method)
        return found

    def route(self, row: Row) -> Route:
        """Return the row's endpoint behind its gate."""
        gate = self.gate_for_files if row.takes is bytes else self.gate
        behind = gate(self.endpoint(row), row.scope, reads=row.takes is not None)
        return Route(row.path, behind, methods=[row.method])


def application(service: Service, added: Added = Added()) -> Starlette:
    """Return the application of this service; `state.straight` are the ways past it."""
    parts = Parts(service, added)
    routes = [*map(parts.route, ROUTES), *_described(parts.gate), *_added(parts.gate, added)]

    def beside(app: Starlette) -> AbstractAsyncContextManager[None]:
        return work(service, parts.health, Sampler(service, parts.recent), added.work)

    absent = _absent(parts.gate, routes)
    app = Starlette(routes=routes, lifespan=beside, exception_handlers={404: absent, 405: absent})
    app.router.redirect_slashes = False  # a redirect would go past the gate
    app.state.service = service
    app.state.straight = [
        Straight(row.path, parts.endpoint(row), parts.gate, "serve", service.stopping)
        for row in ROUTES
        if row.handler in BUSIEST
    ]
    return app


def _described(gate: Gate) -> list[Route]:
    """Return the two forms of the API's description."""
    described, readable = msgspec.json.encode(document()), page()

    async def openapi(asking: Asking) -> Response:
        return Response(described, media_type="application/json")

    async def docs(asking: Asking) -> Response:
        return HTMLResponse(readable, headers=pages.SAFELY | {"content-security-policy": PAGE_POLICY})

    return [Route("/openapi.json", gate(openapi, None)), Route("/docs", gate(docs, None))]


def _added(gate: Gate, added: Added) -> list[Route]:
    """Return the dashboard, and what another program has brought."""
    shown = (pages.page("/", "dashboard"), pages.assets(), *added.pages)
    return [
        *(
            Route(path, gate(found, "admin", reads=method in WITH_BODIES), methods=[method])
            for method, path, found in added.endpoints
        ),
        *(Route(each.path, gate(each.endpoint, None)) for each in shown),
    ]


def _absent(gate: Gate, routes: Sequence[Route]) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return what answers where there is no route: behind the gate too, so that it is counted and logged."""

    async def absent(request: Request, error: Exception) -> Response:
        async def refuse(asking: Asking) -> Response:
            raise error

        response = await gate(refuse, None)(request)
        if response.status_code == 405:  # every method of the path, not only those of its first route
            response.headers["allow"] = ", ".join(_methods(routes, request.scope["path"]))
        return response

    return absent


def _methods(routes: Sequence[Route], path: str) -> list[str]:
    """Return what may be asked of this path."""
    return sorted({method for route in routes if route.path_regex.match(path) for method in route.methods or ()})
