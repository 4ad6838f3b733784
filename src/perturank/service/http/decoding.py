"""Bodies: read within limits, decoded from JSON or MessagePack, documents made into arrays, answers encoded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from perturank.service.log.documents import short
from perturank.service.log.refusals import Refused, TooLarge, TooSlow
from perturank.service.log.spec import with_choices
from perturank.service.settings import ServeSettings
from perturank.wire.answers import Skipped
from perturank.wire.requests import Document, Id, Rank, RawRank

T = TypeVar("T")
JSON = "application/json"
BINARY = "application/msgpack"
BINARY_NAMES = (BINARY, "application/x-msgpack")
FILE = "application/vnd.safetensors"
NO_NUMBER = "JSON has no NaN and no Infinity: send null where a number is missing"
LARGE = 262_144  # bytes; a larger body is decoded in another thread, so that other requests need not wait


def is_binary(request: Request) -> bool:
    """Return whether the request came as MessagePack."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() in BINARY_NAMES


async def read_body(request: Request, most: int | None = None) -> bytes:
    """Return the body; refuse one that is late or has more than `most` bytes (None: the limit of the settings)."""
    if "upgrade" in request.headers:  # uvicorn's parser would take the body for data of the other protocol
        raise HTTPException(400, "another protocol is proposed, and only HTTP/1.1 is served", {"connection": "close"})
    settings: ServeSettings = request.app.state.service.settings
    most = settings.body_bytes if most is None else most
    length = request.headers.get("content-length", "0")
    if not re.fullmatch(r"[0-9]{1,18}", length) or int(length) > most:
        raise _too_large(most)
    parts, size = [], 0
    try:
        async with asyncio.timeout(settings.body_timeout):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _too_large(most)
                parts.append(part)
    except TimeoutError:
        raise TooSlow("the body did not come", f"send it within {settings.body_timeout:g} seconds") from None
    return b"".join(parts)


def _too_large(most: int) -> TooLarge:
    return TooLarge("the body is too large", f"send at most {most} bytes")


async def decode(request: Request, kind: type[T]) -> T:
    """Read the body and return it as this kind of request."""
    body = await read_body(request)
    return await offload(body, partial(decoded, body, kind, is_binary(request)))


def decoded(body: bytes, kind: type[T], binary: bool) -> T:
    """Return the body as this kind of request; refuse any other."""
    try:
        return msgspec.msgpack.decode(body, type=kind) if binary else msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        bad = _bad_features(_found(body, binary, str(error)))
        if bad is not None:
            raise Refused(*bad) from None
        remedy = NO_NUMBER if not binary and _is_no_number(body, str(error)) else with_choices(str(error))
        raise Refused("the body cannot be understood", remedy) from None


def _is_no_number(body: bytes, error: str) -> bool:
    """Return whether msgspec complains of a word that some programs write and JSON does not have."""
    where = re.search(r"malformed.*\(byte (\d+)\)", error)
    return where is not None and body.startswith((b"NaN", b"Infinity", b"nan", b"inf"), int(where[1]))


def _found(body: bytes, binary: bool, error: str) -> Any:
    """Return the document of whose features msgspec complains; None: it complains of something else."""
    where = re.search(r"`\$((?:\.\w+|\[\d+\])*)\.features", error)
    if where is None:
        return None
    try:
        value = msgspec.msgpack.decode(body) if binary else msgspec.json.decode(body)
    except msgspec.DecodeError:  # it is broken further on
        return None
    for step in re.findall(r"\w+", where[1]):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def _bad_features(document: Any) -> tuple[str, str] | None:
    """Return what is wrong with the features of a document and what to do; None: nothing that is looked for here."""
    if not isinstance(document, dict) or "id" not in document or "features" not in document:
        return None
    name, features = document["id"], document["features"]
    if not isinstance(features, list | dict):
        return f"the features of document {name!r} are {short(features)}", "send a list of numbers, or numbers by name"
    for feature, value in features.items() if isinstance(features, dict) else enumerate(features):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            says = f"feature {feature!r} of document {name!r} is {short(value)}"
            return says, "send a number, or null where it is missing"
    return None


def decoded_rank(body: bytes, binary: bool) -> tuple[Rank | RawRank, list[Skipped]]:
    """Return a rank request, and the documents that cannot be decoded, if the request lets them be skipped."""
    kind: type[Rank | RawRank] = RawRank if binary else Rank
    try:
        return decoded(body, kind, binary), []
    except Refused:
        if binary:
            raise
        try:
            loose = msgspec.json.decode(body, type=_LooseRank)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            loose = None
        if loose is None or loose.on_error != "skip":
            raise
    good, skipped = [], []
    for content in loose.documents:
        try:
            good.append(msgspec.json.decode(content, type=Document))
        except msgspec.ValidationError as error:
            why = _bad_features(msgspec.json.decode(content))
            skipped.append(Skipped(decoded(content, _Named, False).id, str(error) if why is None else why[0]))
    others = {name: getattr(loose, name) for name in Rank.__struct_fields__ if name != "documents"}
    return Rank(good, **others), skipped


class _LooseRank(Rank, frozen=True):
    documents: list[msgspec.Raw]  # type: ignore[assignment]  # each is decoded on its own


class _Named(msgspec.Struct):
    id: Id


def without_bad(
    given: Rank | RawRank, read: Callable[[Rank | RawRank], object]
) -> tuple[Rank | RawRank, list[Skipped]]:
    """Return the request without the documents that `read` refuses when they stand alone, and why each was refused."""
    good: list[Rank | RawRank] = []
    skipped: list[Skipped] = []
    has_prior = isinstance(given, Rank) and any(each.prior is not None for each in given.documents)
    for name, alone in _one_by_one(given):
        try:
            read(alone)
            if has_prior and isinstance(alone, Rank) and alone.documents[0].prior is None:
                raise Refused(f"document {name!r} has no prior", "give it to all or to none")
        except Refused as refused:
            skipped.append(Skipped(name, refused.what))
        else:
            good.append(alone)
    if not good:
        raise Refused("no document can be read", skipped[0].title if skipped else "send at least one")
    return _joined(given, good), skipped


def _one_by_one(given: Rank | RawRank) -> list[tuple[str, Rank | RawRank]]:
    replace = msgspec.structs.replace
    if isinstance(given, Rank):
        return [(each.id, replace(given, documents=[each])) for each in given.documents]
    width, prior = len(given.features) // max(len(given.ids), 1), given.prior
    rows = [given.features[i * width : (i + 1) * width] for i in range(len(given.ids))]
    priors = [None if prior is None else prior[4 * i : 4 * i + 4] for i in range(len(given.ids))]
    parts = zip(given.ids, rows, priors, strict=True)
    return [(name, replace(given, ids=[name], features=row, prior=own)) for name, row, own in parts]


def _joined(given: Rank | RawRank, parts: Sequence[Rank | RawRank]) -> Rank | RawRank:
    if isinstance(given, Rank):
        documents = [each for part in parts if isinstance(part, Rank) for each in part.documents]
        return msgspec.structs.replace(given, documents=documents)
    raw = [part for part in parts if isinstance(part, RawRank)]
    prior = None if given.prior is None else b"".join(part.prior or b"" for part in raw)
    ids, features = [part.ids[0] for part in raw], b"".join(part.features for part in raw)
    return msgspec.structs.replace(given, ids=ids, features=features, prior=prior)


async def offload(body: bytes, make: Callable[[], T]) -> T:
    """Run a step on the body; with a large body in another thread, so that other requests are answered meanwhile."""
    return await anyio.to_thread.run_sync(make) if len(body) > LARGE else make()


def query_number(request: Request, name: str, within: range) -> int | None:
    """Return a number behind the question mark; None: it is not there."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) in within):
        raise Refused(f"{name} is {text[:40]!r}", f"say a number from {within[0]} to {within[-1]}")
    return int(text)


def respond(request: Request, value: Any, status: int = 200) -> Response:
    """Return the answer as JSON or MessagePack, like the request."""
    if is_binary(request):
        return Response(msgspec.msgpack.encode(value), status, media_type=BINARY)
    return Response(msgspec.json.encode(value), status, media_type=JSON)
