"""A request as endpoints see it, whichever way it came."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response


@dataclass(slots=True)
class Asking:
    """What was asked, of whom and by whom; the body is read when the gate has let the request in."""

    method: str
    path: str
    route: str  # the path with the names of its parts
    path_params: Mapping[str, Any]
    headers: Mapping[str, str]
    address: str
    stopping: threading.Event  # set when the service is told to stop: streams end then
    query_params: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_admin: bool = False  # the gate knows: whoever asked may do everything with this model

    @classmethod
    def of(cls, request: Request) -> Asking:
        """Return a request that came through Starlette, without its body."""
        return cls(
            request.method,
            request.scope["path"],
            getattr(request.scope.get("route"), "path", ""),
            request.path_params,
            request.headers,
            request.client.host if request.client is not None else "",
            request.app.state.service.stopping,
            request.query_params,
        )


Endpoint = Callable[[Asking], Awaitable[Response]]
