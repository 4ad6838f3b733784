"""Rankers as bytes in the log (a version for serving, a state for learning), and the list of published versions."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from perturank import storage
from perturank.core import Ranker, Remembers
from perturank.service.log import Log
from perturank.service.log.records import Changed, Snapshot
from perturank.service.log.refusals import NotKnown
from perturank.service.log.spec import Spec
from perturank.wire.specification import Scaling

KEPT = 20  # newest versions, all of which stay stored
SHARE = 8  # two older neighbours are one eighth of their age apart, counted in versions
PAGE_SIZES = range(1, 1001)  # how many versions a request may ask for
NUMBERS = range(1, 2**53)  # of versions, as JSON can say them


def version_name(model: str, version: int) -> str:
    """Return the name under which a version is stored; names sort as versions do."""
    return f"{model}/version/{version:012d}"


def state_name(model: str) -> str:
    """Return the name under which the learner's state is stored."""
    return f"{model}/state"


def base_name(model: str) -> str:
    """Return the name under which the state is stored from which a replay begins."""
    return f"{model}/base"


def next_name(model: str) -> str:
    """Return the name under which the state is stored that is to be the next base."""
    return f"{model}/next"


def whole_name(model: str, version: int | None = None) -> str:
    """Return the name under which a version is stored with all that learning needs; None: how such names begin."""
    return f"{model}/whole/" + ("" if version is None else f"{version:012d}")


def has_history(ranker: Ranker) -> bool:
    """Return whether the ranker has arrays that only learning needs."""
    return bool(_learning_only(ranker))


def _learning_only(ranker: Ranker) -> tuple[str, ...]:
    """Return the prefixes of the names of arrays that only learning needs."""
    return tuple(f".{field}" for field in ranker.learning_only) if isinstance(ranker, Remembers) else ()


def served_arrays(ranker: Ranker) -> dict[str, np.ndarray]:
    """Return the arrays that serving needs, by name."""
    apart = _learning_only(ranker)
    return {name: array for name, array in storage.arrays_of(ranker).items() if not name.startswith(apart)}


def version_bytes(ranker: Ranker, **header: Any) -> bytes:
    """Return the arrays that serving needs, as bytes."""
    return storage.packed(served_arrays(ranker), storage.header_of(ranker) | header)


def state_bytes(ranker: Ranker, beside: Mapping[str, np.ndarray] | None = None, **header: Any) -> bytes:
    """Return the whole ranker, and other arrays, as bytes."""
    return storage.packed(storage.arrays_of(ranker) | dict(beside or {}), storage.header_of(ranker) | header)


def file_bytes(ranker: Ranker, model: str, version: int, *, history: bool = True, scaling: Scaling = "auto") -> bytes:
    """Return a version as a file that `perturank.load` reads; it says whether its history is in it.

    It also says if its features were scaled within their lists, which happens before the ranker sees them.
    """
    scaled: dict[str, Any] = {"scaling": scaling} if scaling == "query" else {}
    return state_bytes(ranker, model=model, learned_version=version, history=history, **scaled)


def ranker_of(content: bytes, name: str, spec: Spec | None = None) -> tuple[Ranker, dict[str, Any]]:
    """Return a ranker from its bytes, and the header; with a spec, arrays that only learning needs may be missing.

    A version of a model that had other features is adapted to those of the spec.
    """
    arrays, header = storage.unpacked(content, name)
    if spec is None:
        return storage.restored(arrays, header, name), header
    start = _as_then(spec, header).start()
    blank = {k: v for k, v in storage.arrays_of(start).items() if k.startswith(_learning_only(start))}
    return spec.adapt(storage.filled(start, blank | arrays, name)), header


def _as_then(spec: Spec, header: Mapping[str, Any]) -> Spec:
    """Return the spec with the features that a model had when a version was written."""
    schema = header.get("schema") or {}
    columns, width = schema.get("columns"), schema.get("width", 0)
    return spec.with_layout(header["n_features"], None if columns is None else tuple(columns), width)


def digest(ranker: Ranker, *, whole: bool = False) -> bytes:
    """Return a 16-byte digest of the arrays that serving needs, or of all arrays if `whole`.

    The history decides the next fit, so a fault in it shows in the next version. Hashing the whole history for every
    version would take longer and longer.
    """
    hashed = hashlib.blake2b(digest_size=16)
    for name, array in sorted((storage.arrays_of(ranker) if whole else served_arrays(ranker)).items()):
        hashed.update(f"{name} {array.dtype} {array.shape} ".encode())
        hashed.update(np.ascontiguousarray(array).data)
    return hashed.digest()


def checksum(content: bytes) -> bytes:
    """Return a 16-byte checksum."""
    return hashlib.blake2b(content, digest_size=16).digest()


def kept(versions: Iterable[int]) -> set[int]:
    """Return which of these versions stay stored: the newest, and ever fewer the older they are.

    A version that is dropped now would not be kept later either, so the result hardly depends on how often this runs.
    Of n versions some 8 log2(n) stay. Ages are counted in versions: no clock is needed.
    """
    known = set(versions)
    newest = max(known, default=0)
    return {version for version in known if newest - version < KEPT or version % _spacing(newest - version) == 0}


def _spacing(age: int) -> int:
    """Return the largest power of two that is at most a share of the age."""
    return 1 << max(0, (age // SHARE).bit_length() - 1)


def versions(log: Log, model: str) -> list[int]:
    """Return the versions whose bytes are stored, oldest first."""
    return [int(name.rpartition("/")[2]) for name in log.names(f"{model}/version/")]


def whole_versions(log: Log, model: str) -> set[int]:
    """Return the versions that are stored with all that learning needs."""
    return {int(name.rpartition("/")[2]) for name in log.names(whole_name(model))}


class PublishedVersion(NamedTuple):
    """A version with the position and time of its record."""

    position: int
    at: int  # milliseconds since 1970
    snapshot: Snapshot


def newest(log: Log, model: str, n: int, up_to: int | None = None) -> list[PublishedVersion]:
    """Return a model's last versions up to a position, the newest first."""
    found = log.newest(model, Snapshot, n, up_to)
    return [PublishedVersion(each.position, each.at, each.entry) for each in found if isinstance(each.entry, Snapshot)]


def last(log: Log, model: str, holds: Callable[[PublishedVersion], bool]) -> PublishedVersion | None:
    """Return the last version for which `holds` is true, as it is for all before it; None: there is none."""

    def is_past(position: int) -> bool:
        at = newest(log, model, 1, position)
        return bool(at) and not holds(at[0])

    up_to = bisect_left(range(log.tail() + 1), True, key=is_past) - 1
    return next(iter(newest(log, model, 1, up_to)), None)


def found(log: Log, model: str, version: int) -> PublishedVersion | None:
    """Return the version of this number; None: there is none."""
    at = last(log, model, lambda each: each.snapshot.version <= version)  # numbers grow with positions
    return at if at is not None and at.snapshot.version == version else None


def spec_at(log: Log, model: str, position: int) -> Spec:
    """Return a model as it was at this position."""
    changed = next(iter(log.newest(model, Changed, 1, position)), None)
    if changed is None:
        raise NotKnown(f"there is no model {model!r}", "make it first")
    assert isinstance(changed.entry, Changed)
    return changed.entry.spec
