"""Bodies: read within limits, decoded from JSON or MessagePack, and answered in the same form."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from perturank.service.log.refusals import Refused, TooLarge, TooSlow
from perturank.service.settings import ServeSettings

T = TypeVar("T")
JSON = "application/json"
BINARY = "application/msgpack"
BINARY_NAMES = (BINARY, "application/x-msgpack")
FILE = "application/vnd.safetensors"
LARGE = 262_144  # bytes: to decode more takes longer than others should wait


def is_binary(request: Request) -> bool:
    """Return whether the request came as MessagePack."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() in BINARY_NAMES


async def read_body(request: Request, most: int | None = None) -> bytes:
    """Return the body, if it comes in time and has at most so many bytes; None: as many as the settings allow."""
    if "upgrade" in request.headers:  # uvicorn's parser takes the body for the other protocol's
        raise HTTPException(400, "another protocol is proposed, and only HTTP/1.1 is served", {"connection": "close"})
    settings: ServeSettings = request.app.state.service.settings
    most = settings.body_bytes if most is None else most
    too_large = TooLarge("the body is too large", f"send at most {most} bytes")
    length = request.headers.get("content-length", "0")
    if not re.fullmatch(r"[0-9]{1,18}", length) or int(length) > most:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(settings.patience):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise TooSlow("the body did not come", f"send it within {settings.patience:g} seconds") from None
    return b"".join(parts)


async def decode(request: Request, kind: type[T]) -> T:
    """Read the body and return it as this kind of request."""
    body = await read_body(request)
    return await offload(body, partial(decoded, body, kind, is_binary(request)))


def decoded(body: bytes, kind: type[T], binary: bool) -> T:
    """Return the body as this kind of request; what is none is refused."""
    try:
        return msgspec.msgpack.decode(body, type=kind) if binary else msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused("the body cannot be understood", str(error)) from None


async def offload(body: bytes, make: Callable[[], T]) -> T:
    """Return what is made of the body; of a large one in another thread, so that others are answered meanwhile."""
    return await anyio.to_thread.run_sync(make) if len(body) > LARGE else make()


def respond(request: Request, value: Any, status: int = 200) -> Response:
    """Return the answer in the form of the request."""
    if is_binary(request):
        return Response(msgspec.msgpack.encode(value), status, media_type=BINARY)
    return Response(msgspec.json.encode(value), status, media_type=JSON)
