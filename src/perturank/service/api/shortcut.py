"""The two busiest requests go straight to their endpoints: routing and middleware would cost a third as much again."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from perturank.service.api.gate import Endpoint

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
BUSIEST = re.compile(r"/v1/models/([A-Za-z0-9._-]+)/(rank|feedback)")


class Shortcut:
    """The application, with a quicker way to some of its routes: {last word of the path: route}."""

    def __init__(self, app: Starlette, routes: Mapping[str, tuple[Route, Endpoint]]) -> None:
        self._app, self._routes, self.state = app, routes, app.state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        found = BUSIEST.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        route, endpoint = self._routes[found[2]]
        scope.update(path_params={"model": found[1]}, route=route, app=self._app)
        response = await endpoint(Request(scope, receive))
        await response(scope, receive, send)
