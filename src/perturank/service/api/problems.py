"""Refusals as problem JSON (RFC 9457), whoever makes them."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from perturank.service.api.requests import Problem

PROBLEM = "application/problem+json"
AGAIN_LATER = {"retry-after": "1"}
HEADERS = {
    400: {"connection": "close"},  # what follows cannot be told from the rest of this
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},
    413: {"connection": "close"},
    431: {"connection": "close"},
    429: AGAIN_LATER,
    503: AGAIN_LATER,
    507: AGAIN_LATER,
}


def problem(status: int, kind: str, title: str, detail: str, request: str) -> Response:
    """Return an answer that says what was wrong; its id is in the header, in the body and in the log."""
    content = msgspec.json.encode(Problem(f"urn:perturank:{kind}", title, status, detail, request))
    headers = HEADERS.get(status, {}) | {"x-request-id": request}
    return Response(content, status, headers, media_type=PROBLEM)
