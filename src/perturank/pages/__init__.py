"""The pages that browsers are shown: built from web/ beforehand, shipped with the package, served from memory.

They hold no data: what they show they ask of the API, with a key where there are keys.
"""

from __future__ import annotations

import json
import mimetypes
from dataclasses import dataclass
from functools import cache
from importlib import resources

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SAFELY = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
LOOK_AGAIN = "no-cache"  # a page keeps its address when it is built anew
FOR_EVER = "public, max-age=31536000, immutable"  # an asset's name has its digest in it


@dataclass(frozen=True)
class File:
    """A built file."""

    content: bytes
    kind: str
    etag: str
    cached: str


@cache
def built() -> dict[str, File]:
    """Return every built file by its name; only those that the manifest names."""
    folder = resources.files(__name__) / "static"
    digests: dict[str, str] = json.loads((folder / "manifest.json").read_bytes())["files"]
    return {name: _file(name, (folder / name).read_bytes(), digest) for name, digest in digests.items()}


def _file(name: str, content: bytes, digest: str) -> File:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return File(content, kind, f'"{digest[:32]}"', FOR_EVER if name.startswith("assets/") else LOOK_AGAIN)


def page(path: str, name: str) -> Route:
    """Return the route of a page, named as its file in web/ is."""

    async def shown(request: Request) -> Response:
        return _answer(request, built()[f"{name}.html"])

    return Route(path, shown)


def assets() -> Route:
    """Return the route of what pages are made of."""

    async def found(request: Request) -> Response:
        file = built().get(request.path_params["name"])
        if file is None:
            raise HTTPException(404, "there is no such file", SAFELY)
        return _answer(request, file)

    return Route("/static/{name:path}", found)


def _answer(request: Request, file: File) -> Response:
    headers = SAFELY | {"etag": file.etag, "cache-control": file.cached}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(None, 304, headers)
    return Response(file.content, 200, headers, media_type=file.kind)
