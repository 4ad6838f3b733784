"""Documents of a request, or of a file, as the arrays that the log keeps."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from perturank.service.log.refusals import Refused, TooLarge
from perturank.service.log.spec import Spec
from perturank.wire.requests import Document
from perturank.wire.specification import Feature

MOST_NAMED = 20  # features, in an error
LARGEST = 1e12  # a score multiplies and adds many of them in float32, and squares some


def short(value: object) -> str:
    """Return a value as an error shows it."""
    return repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}…"


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
    rows = [each.features if type(each.features) is list else _row(each, spec) for each in documents]
    if set(map(len, rows)) != {spec.n_features}:
        wrong = next(each for each, row in zip(documents, rows, strict=True) if len(row) != spec.n_features)
        raise _of_another_width(f"document {wrong.id!r}", len(wrong.features), spec)
    features = _packed(rows)
    return _readable(features, spec, [each.id for each in documents]), _prior([each.prior for each in documents])


def _of_another_width(what: str, n: int, spec: Spec) -> Refused:
    others = "add or drop some with PATCH" if spec.features is not None else "PUT another model for these"
    remedy = f"the model has {spec.n_features}: send all of them, null where one is missing, or {others}"
    return Refused(f"{what} has {n} feature{'' if n == 1 else 's'}", remedy)


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
    try:
        content = b"".join([pack(*row) for row in rows])
    except struct.error:  # some are missing
        content = b"".join([pack(*(math.nan if value is None else value for value in row)) for row in rows])
    return np.frombuffer(content).reshape(len(rows), d)


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
    if spec.scaling == "auto" and np.abs(rows).max() <= LARGEST:  # no value is missing
        return rows.astype(np.float32)
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
        says = f"document {document.id!r} has a feature {short(stranger)}"
        raise Refused(says, f"the model has no such feature, but {known}")
    return [given.get(feature.name) for feature in spec.features]


def _scaled(rows: np.ndarray, spec: Spec) -> np.ndarray:
    if spec.features is None:
        return rows
    shift = np.array([feature.shift or 0.0 for feature in spec.features])
    scale = np.array([feature.scale or 1.0 for feature in spec.features])
    with np.errstate(over="ignore", invalid="ignore"):
        return (rows - shift) / scale
