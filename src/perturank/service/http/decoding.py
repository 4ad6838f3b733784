"""Bodies: read within limits, decoded from JSON or MessagePack, documents made into arrays, answers encoded."""

from __future__ import annotations

import asyncio
import math
import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

import anyio.to_thread
import msgspec
import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from perturank.service.log.refusals import Refused, TooLarge, TooSlow
from perturank.service.log.spec import Spec, with_choices
from perturank.service.settings import ServeSettings
from perturank.wire.answers import Skipped
from perturank.wire.requests import Document, Id, Rank, RawRank
from perturank.wire.specification import Feature

T = TypeVar("T")
JSON = "application/json"
BINARY = "application/msgpack"
BINARY_NAMES = (BINARY, "application/x-msgpack")
FILE = "application/vnd.safetensors"
LARGE = 262_144  # bytes; a larger body is decoded in another thread, so that other requests need not wait
MOST_NAMED = 20  # features, in an error
LARGEST = 1e12  # a score multiplies and adds many of them in float32, and squares some


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
        raise Refused("the body cannot be understood", with_choices(str(error))) from None


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
        return f"the features of document {name!r} are {_short(features)}", "send a list of numbers, or numbers by name"
    for feature, value in features.items() if isinstance(features, dict) else enumerate(features):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            says = f"feature {feature!r} of document {name!r} is {_short(value)}"
            return says, "send a number, or null where it is missing"
    return None


def _short(value: Any) -> str:
    return repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}…"


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


def check_ids(ids: Sequence[str], most: int) -> None:
    """Refuse a request without documents, with too many, or with two of the same id."""
    if not ids:
        raise Refused("there are no documents", "send at least one")
    if len(ids) > most:
        raise TooLarge(f"there are {len(ids)} documents", f"send at most {most}")
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(each for each in ids if each in seen or seen.add(each))  # type: ignore[func-returns-value]
        raise Refused(f"two documents are named {twice!r}", "give each its own id")


def of_documents(documents: Sequence[Document], spec: Spec, most: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return features [n, d] and prior [n] (None: none was given)."""
    check_ids([each.id for each in documents], most)
    rows = [_row(each, spec) for each in documents]
    if set(map(len, rows)) != {spec.n_features}:
        wrong = next(each for each, row in zip(documents, rows, strict=True) if len(row) != spec.n_features)
        raise _of_another_width(f"document {wrong.id!r}", len(wrong.features), spec)
    features = _packed(rows)
    return _readable(features, spec, [each.id for each in documents]), _prior([each.prior for each in documents])


def _of_another_width(what: str, n: int, spec: Spec) -> Refused:
    others = "add or drop some with PATCH" if spec.features is not None else "PUT another model for these"
    remedy = f"the model has {spec.n_features}: send all of them, null where one is missing, or {others}"
    return Refused(f"{what} has {n} features", remedy)


def _prior(priors: Sequence[float | None]) -> np.ndarray | None:
    """Return the priors as an array; None: no document has one."""
    n_without = priors.count(None)
    if n_without == len(priors):
        return None
    if n_without > 0:
        raise Refused("some documents have a prior and some have none", "give it to all or to none")
    return finite(np.asarray(priors, np.float64), "prior")


def _packed(rows: Sequence[list[float | None]]) -> np.ndarray:
    """Return rows of equal length as an array [n, d]; three times as quick as NumPy with lists of lists."""
    d = len(rows[0])
    pack = _doubles(d).pack
    if any(None in row for row in rows):
        rows = [[math.nan if value is None else value for value in row] for row in rows]
    return np.frombuffer(b"".join([pack(*row) for row in rows])).reshape(len(rows), d)


@lru_cache(maxsize=32)
def _doubles(n: int) -> struct.Struct:
    return struct.Struct(f"{n}d")


def check_width(features: np.ndarray, spec: Spec) -> None:
    """Refuse features [n, d] of another width than the model's, which may have changed since they came."""
    if features.shape[1] != spec.n_features:
        raise Refused(f"the query has {features.shape[1]} features", f"the model has {spec.n_features} now")


def of_bytes(
    ids: Sequence[str], features: bytes, prior: bytes | None, spec: Spec, most: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return features [n, d] and prior [n] of the binary form."""
    check_ids(ids, most)
    n, d = len(ids), spec.n_features
    if len(features) != 4 * n * d or (prior is not None and len(prior) != 4 * n):
        if len(features) % (4 * n) == 0 and len(features) != 4 * n * d:
            raise _of_another_width("each document", len(features) // (4 * n), spec)
        raise Refused(f"features have {len(features)} bytes", f"{n} documents of {d} float32 have {4 * n * d}")
    rows = np.frombuffer(features, "<f4").reshape(n, d)
    return _readable(rows, spec, ids), None if prior is None else finite(np.frombuffer(prior, "<f4"), "prior")


def _readable(rows: np.ndarray, spec: Spec, ids: Sequence[str]) -> np.ndarray:
    """Return features [n, d] as the log keeps them: raw where the ranker standardises them, else scaled."""
    is_missing = np.isnan(rows)
    is_fine = (np.abs(rows) <= LARGEST) | is_missing
    if not is_fine.all():
        i, j = np.argwhere(~is_fine)[0]
        raise _bad_value(spec, ids[i], j, f"is not a number up to {LARGEST:g}", "send a finite number")
    if spec.scaling == "none":
        if is_missing.any():
            rows = _filled(rows, spec, ids)
        return finite(_scaled(rows, spec), "features")
    if spec.scaling == "query":
        low, high = np.fmin.reduce(rows), np.fmax.reduce(rows)  # missing values aside
        rows = (rows - low) / np.where(high > low, high - low, 1.0)
    content = rows.astype(np.float32)
    content[is_missing] = np.nan  # of all the bits that mean it, the same ones
    return content


def _filled(rows: np.ndarray, spec: Spec, ids: Sequence[str]) -> np.ndarray:
    """Return the features with what stands for missing ones; a missing one for which nothing stands is refused."""
    features = spec.features or (Feature(""),) * spec.n_features
    missing = np.array([math.nan if each.missing is None else each.missing for each in features])
    missing = missing * [each.scale or 1.0 for each in features] + [each.shift or 0.0 for each in features]
    rows = np.where(np.isnan(rows), missing, rows)
    if np.isnan(rows).any():
        i, j = np.argwhere(np.isnan(rows))[0]
        raise _bad_value(spec, ids[i], j, "is missing", "send it, or give the feature a `missing` value")
    return rows


def _bad_value(spec: Spec, document: str, column: int, what: str, remedy: str) -> Refused:
    name = spec.features[column].name if spec.features is not None else int(column)
    return Refused(f"feature {name!r} of document {document!r} {what}", remedy)


def finite(values: np.ndarray, name: str) -> np.ndarray:
    """Return the values as float32; refuse values that are not finite or whose scores might not be."""
    is_fine = np.abs(values) <= LARGEST  # NaN is not
    if not is_fine.all():
        where = [int(i) for i in np.argwhere(~is_fine)[0]]
        raise Refused(f"{name}{where} is not a number up to {LARGEST:g}", "send finite numbers, scaled")
    return values.astype(np.float32, copy=False)


def _row(document: Document, spec: Spec) -> list[float | None]:
    given = document.features
    if isinstance(given, list):
        return given
    if spec.features is None:
        raise Refused("the model's features have no names", "send features as a list, or name them with PUT")
    if len(given) > len(spec.features) or not given.keys() <= {feature.name for feature in spec.features}:
        stranger = next(iter(given.keys() - {feature.name for feature in spec.features}))
        names = [feature.name for feature in spec.features[:MOST_NAMED]]
        known = ", ".join(names) + (", …" if len(spec.features) > MOST_NAMED else "")
        says = f"document {document.id!r} has a feature {_short(stranger)}"
        raise Refused(says, f"the model has no such feature, but {known}")
    return [given.get(feature.name) for feature in spec.features]


def _scaled(rows: np.ndarray, spec: Spec) -> np.ndarray:
    if spec.features is None:
        return rows
    shift = np.array([feature.shift or 0.0 for feature in spec.features])
    scale = np.array([feature.scale or 1.0 for feature in spec.features])
    with np.errstate(over="ignore", invalid="ignore"):
        return (rows - shift) / scale
