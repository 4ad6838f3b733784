"""JSON and MessagePack: bodies into requests, answers into bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anyio.to_thread
import msgspec
from starlette.responses import Response

from perturank.service.api.asking import Asking
from perturank.service.api.repeating import check_json, check_packed
from perturank.service.api.requests import RawRank
from perturank.service.refusals import Refused

T = TypeVar("T")
BINARY = "application/msgpack"
FILE = "application/vnd.safetensors"
LARGE = 262_144  # bytes: to read more takes longer than others should wait
_decoders: dict[tuple[Any, bool], Any] = {}


def is_binary(asking: Asking) -> bool:
    """Return whether the request came as MessagePack."""
    return asking.headers.get("content-type", "").partition(";")[0].strip().lower() in (
        BINARY,
        "application/x-msgpack",
    )


def asked(asking: Asking, kind: type[T]) -> T:
    """Return the body as this kind of request."""
    binary = is_binary(asking)
    if (kind, binary) not in _decoders:
        make = msgspec.msgpack.Decoder if binary else msgspec.json.Decoder
        _decoders[kind, binary] = make(kind)
    body: bytes = asking.body
    try:
        value: T = _decoders[kind, binary].decode(body)
        if binary:
            check_packed(body, is_flat=kind is RawRank)
        else:
            check_json(body, value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused("the body cannot be understood", str(error)) from None
    return value


async def aside(asking: Asking, make: Callable[[], T]) -> T:
    """Return what is made of the body; of a large one in another thread, so that others are answered meanwhile."""
    return await anyio.to_thread.run_sync(make) if len(asking.body) > LARGE else make()


def answered(asking: Asking, value: Any, status: int = 200) -> Response:
    """Return the answer in the form of the request."""
    if is_binary(asking):
        return Response(msgspec.msgpack.encode(value), status, media_type=BINARY)
    return Response(msgspec.json.encode(value), status, media_type="application/json")
