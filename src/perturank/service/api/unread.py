"""The numbers of a rank request read all at once: an object for each of them would cost more than the list itself.

This is the quick way for the usual case. Whatever is unusual about a body, also whatever is wrong with it, is left to
the slow way, which reads every number by itself and says what is wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from perturank.service.api.repeating import colons, hides_colons
from perturank.service.api.requests import Document, Rank

try:
    import simdjson
except ImportError:  # it is not built for every Python; then every request goes the slow way
    simdjson = None  # type: ignore[assignment]


def _like(kind: type[msgspec.Struct], **types: Any) -> Any:
    """Return a struct with the fields of another, some of them of other types; what is left out can be told."""
    typed = [(each, types.get(each.name, each.type)) for each in msgspec.structs.fields(kind)]
    defined: list[Any] = [
        (each.name, type_) if each.required else (each.name, type_ | msgspec.UnsetType, msgspec.UNSET)
        for each, type_ in typed
    ]
    return msgspec.defstruct(f"Unread{kind.__name__}", defined, frozen=True, forbid_unknown_fields=True, gc=False)


_Document: Any = _like(Document, features=msgspec.Raw)
_decoded = msgspec.json.Decoder(_like(Rank, documents=list[_Document])).decode


class Numbers(NamedTuple):
    """A rank request: what it says beside its documents, their ids, features [n, d] and priors."""

    asks: Rank  # without documents
    ids: list[str]
    features: np.ndarray
    priors: list[float | None]


def numbers(body: bytes) -> Numbers | None:
    """Return the request in this body; None: it has to be read the slow way."""
    if simdjson is None or hides_colons(body):
        return None
    try:
        found = _decoded(body)
        features = _array([bytes(each.features) for each in found.documents])
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, TypeError, RuntimeError):
        return None
    said = {name: value for name, value in msgspec.structs.asdict(found).items() if value is not msgspec.UNSET}
    ids, priors = [each.id for each in found.documents], [each.prior for each in found.documents]
    texts = [value for value in said.values() if isinstance(value, str)]
    n_fields = len(said) + 3 * len(ids) - priors.count(msgspec.UNSET)
    if features is None or body.count(b":") != n_fields + colons([*texts, *ids]):  # a field stands twice
        return None
    asks = Rank(**(said | {"documents": []}))
    return Numbers(asks, ids, features, [None if each is msgspec.UNSET else each for each in priors])


def _array(texts: list[bytes]) -> np.ndarray | None:
    """Return lists of numbers, all of one length, as an array [n, d]; None: they are not that."""
    if any(text.rfind(b"[") != 0 for text in texts):  # lists in lists would be taken for longer lists
        return None
    rows: Any = simdjson.Parser().parse(b"[" + b",".join(texts) + b"]")
    if len({len(row) for row in rows}) != 1:
        return None
    return np.frombuffer(rows.as_buffer(of_type="d")).reshape(len(texts), -1)
