"""What another program may bring to the service it starts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from starlette.routing import Route

from perturank.service.api.asking import Endpoint


class Added(NamedTuple):
    """Pages, endpoints behind the gate, and work beside them."""

    pages: Sequence[Route] = ()
    endpoints: Sequence[tuple[str, str, Endpoint]] = ()  # method, path, endpoint; an administrator's, where keys are
    work: Callable[[], Awaitable[None]] | None = None
