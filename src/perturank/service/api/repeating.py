"""Objects that name a field twice are refused: one reader would believe the first, another the last."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from perturank.service.api.requests import Feedback, FeedbackBatch, Rank, RankBatch
from perturank.service.refusals import Refused

ESCAPED_COLONS = (b"\\u003a", b"\\u003A")


def hides_colons(body: bytes) -> bool:
    """Return whether JSON texts may hold colons that the body does not: there is one way to write them otherwise."""
    return b"\\" in body and any(each in body for each in ESCAPED_COLONS)  # one byte is found ten times as quickly


def check_json(body: bytes, value: Any) -> None:
    """Refuse JSON that names a field twice; `value` is what was made of it.

    Every field needs a colon, and what was made of the body tells how many it has at the least. A body with just
    so many repeats nothing, which is quickly counted; any other is read again.
    """
    if not hides_colons(body) and body.count(b":") == _fewest_colons(value):
        return
    json.loads(body, object_pairs_hook=_once, parse_int=len, parse_float=len)


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(f"a field {twice[:80]!r} stands twice in one object", "say it once")


def _fewest_colons(value: Any) -> int:
    """Return how many colons a body of this value has if it leaves out what it can; -1: nobody has counted."""
    match value:
        case Rank(documents=documents):
            named = [each.features for each in documents if isinstance(each.features, dict)]
            n_inside = sum(len(features) + colons(features) for features in named)
            return n_inside + _outside(value) + 2 * len(documents) + sum(each.prior is not None for each in documents)
        case Feedback():
            return 1 + bool(value.clicks) + value.final + colons([value.impression, *value.clicks])
        case RankBatch() | FeedbackBatch():
            return 1 + sum(map(_fewest_colons, value.requests))
        case _:
            return -1


def _outside(asks: Rank) -> int:
    """Return how many colons a request has at the least beside its documents, but with those in their ids."""
    may_lack = (asks.query, asks.top, asks.source, asks.draw)
    fields = 1 + sum(each is not None for each in may_lack) + (asks.mode != "learn")
    texts = [each for each in (asks.query, asks.source) if each is not None]
    return fields + colons([*texts, *(each.id for each in asks.documents)])


def colons(texts: Iterable[str]) -> int:
    """Return how many colons there are in these texts."""
    return "".join(texts).count(":")


def check_packed(content: bytes | msgspec.Raw, *, is_flat: bool) -> None:
    """Refuse MessagePack that names a field twice; flat: there are no maps in the map."""
    first = memoryview(content)[0]
    inside: Iterable[msgspec.Raw] = ()
    if 0x80 <= first <= 0x8F or first in (0xDE, 0xDF):
        fields = msgspec.msgpack.decode(content, type=dict[Any, msgspec.Raw])
        said = first & 0x0F if first <= 0x8F else int.from_bytes(memoryview(content)[1 : 3 if first == 0xDE else 5])
        if said > len(fields):
            raise Refused("a field stands twice in one map", "say it once")
        inside = fields.values()
    elif 0x90 <= first <= 0x9F or first in (0xDC, 0xDD):
        inside = msgspec.msgpack.decode(content, type=list[msgspec.Raw])
    if not is_flat:
        for each in inside:
            check_packed(each, is_flat=False)
