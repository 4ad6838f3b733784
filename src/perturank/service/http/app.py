"""The Starlette application: every route behind the gate, and the background tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from perturank import pages
from perturank.service.http.auth import Keyring
from perturank.service.http.background import Health, Sampler, background_tasks
from perturank.service.http.dashboard import Dashboard
from perturank.service.http.docs_page import PAGE_POLICY, page
from perturank.service.http.live_tests import LiveTestEndpoints
from perturank.service.http.models import ModelEndpoints
from perturank.service.http.openapi import document
from perturank.service.http.rank import ListEndpoints
from perturank.service.http.request import Endpoint, Gate
from perturank.service.http.routes import ROUTES
from perturank.service.http.routes import Route as Row
from perturank.service.http.ubi import UbiEndpoints
from perturank.service.serving.overview import Overview
from perturank.service.serving.service import Service
from perturank.service.telemetry.prometheus import Metrics

IN_PATH = "/ubi/{key}"  # before the path of what a page asks for


class Added(NamedTuple):
    """What another program adds to the service that it starts: pages, endpoints behind the gate, a background task."""

    pages: Sequence[Route] = ()
    endpoints: Sequence[tuple[str, str, Endpoint]] = ()  # method, path, endpoint; with keys, they need the scope admin
    work: Callable[[], Awaitable[None]] | None = None


class Parts:
    """The endpoints of one service, and what they share."""

    def __init__(self, service: Service, added: Added = Added()) -> None:
        settings, metrics = service.settings, Metrics()
        overview = Overview(service, metrics.traffic)
        self.health = Health(overview, metrics)
        overview.failing = lambda: self.health.failing
        overview.pages = [each.path for each in added.pages]
        keyring = Keyring(
            None if settings.keys is None else Path(settings.keys),
            settings.requests_per_second,
            client_rate=settings.client_records_per_second,
        )
        self.gate = Gate(keyring, metrics, lambda: _page_origins(service))
        self._ubi = UbiEndpoints(service, keyring)
        lists = ListEndpoints(service, metrics)
        self._by_name = {
            "lists": lists,
            "tests": LiveTestEndpoints(service, lists),
            "models": ModelEndpoints(service),
            "health": self.health,
            "watch": Dashboard(service, overview),
            "ubi": self._ubi,
        }

    def routes(self, row: Row) -> list[Route]:
        """Return the routes of a row of the table: the method that it names, behind the gate.

        What is for pages can be asked for with the key in the path, since ubi.js sends none, and has a preflight.
        """
        part, _, method = row.handler.partition(".")
        endpoint: Endpoint = getattr(self._by_name[part], method)
        gated = self.gate(endpoint, row.scope, for_pages=row.for_pages)
        if not row.for_pages:
            return [Route(row.path, gated, methods=[row.method])]
        preflight = self.gate(self._ubi.preflight, None, for_pages=True)
        return [
            Route(path, asked, methods=[method])
            for path in (row.path, IN_PATH + row.path)
            for asked, method in ((gated, row.method), (preflight, "OPTIONS"))
        ]


def _page_origins(service: Service) -> set[str]:
    """Return the origins whose pages may send UBI records of some model."""
    return {origin for loaded in service.models.all() for origin in loaded.spec.ubi.origins}


def application(service: Service, added: Added = Added()) -> Starlette:
    """Return the application of this service."""
    parts = Parts(service, added)
    routes = [*chain.from_iterable(map(parts.routes, ROUTES)), *_described(parts.gate), *_added(parts.gate, added)]

    def lifespan(app: Starlette) -> AbstractAsyncContextManager[None]:
        return background_tasks(service, parts.health, Sampler(service), added.work)

    absent = _absent(parts.gate, routes)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: absent, 405: absent})
    app.router.redirect_slashes = False  # a redirect would go past the gate
    app.state.service = service
    return app


def _described(gate: Gate) -> list[Route]:
    """Return the two forms of the API's description."""
    described, readable = msgspec.json.encode(document()), page()

    async def openapi(request: Request) -> Response:
        return Response(described, media_type="application/json")

    async def docs(request: Request) -> Response:
        return HTMLResponse(readable, headers=pages.SAFELY | {"content-security-policy": PAGE_POLICY})

    return [Route("/openapi.json", gate(openapi, None)), Route("/docs", gate(docs, None))]


def _added(gate: Gate, added: Added) -> list[Route]:
    """Return the routes of the dashboard's pages, and those that another program has added."""
    shown = (pages.page("/", "dashboard"), pages.page("/tests", "tests"), pages.assets(), *added.pages)
    return [
        *(Route(path, gate(endpoint, "admin"), methods=[method]) for method, path, endpoint in added.endpoints),
        *(Route(each.path, gate(each.endpoint, None)) for each in shown),
    ]


def _absent(gate: Gate, routes: Sequence[Route]) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return the handler of 404 and 405: behind the gate too, so that they are counted and logged."""

    async def absent(request: Request, error: Exception) -> Response:
        async def refuse(request: Request) -> Response:
            raise error

        response = await gate(refuse, None)(request)
        if response.status_code == 405:  # every method of the path, not only those of its first route
            response.headers["allow"] = ", ".join(_methods(routes, request.scope["path"]))
        return response

    return absent


def _methods(routes: Sequence[Route], path: str) -> list[str]:
    """Return what may be asked of this path."""
    return sorted({method for route in routes if route.path_regex.match(path) for method in route.methods or ()})
