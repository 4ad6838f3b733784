"""A flat set of queries: one row per document, queries one after another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perturank.datasets.grouping import grouped, normalised
from perturank.errors import BadInput

Features = NDArray[np.float32]
Labels = NDArray[np.int8] | NDArray[np.int32]
Offsets = NDArray[np.int64]

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Head:
    """The first n queries of a stream: a round shows one of them with probability p, else a new query."""

    n: int
    p: float


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features [n, d], labels [n]; query i is rows offsets[i] to offsets[i + 1], named qids[i].

    The features may be a memory map: slice them query by query. Users send the queries of a stream in
    the way its `head` says, and those of any other data set uniformly; a part of a stream is no stream.
    """

    name: str
    features: Features
    labels: Labels
    offsets: Offsets
    qids: NDArray[np.str_]
    head: Head | None = None

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

    @property
    def n_documents(self) -> int:
        """The number of documents of all queries."""
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        """The number of features, d."""
        return int(self.features.shape[1])

    @property
    def n_grades(self) -> int:
        """The number of grades of relevance: the largest label plus one, at least two."""
        return max(2, int(self.labels.max(initial=0)) + 1)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of documents of each query, [q]."""
        return np.diff(self.offsets)

    def query(self, i: int) -> tuple[Features, Labels]:
        """Return the features [V, d] and labels [V] of query i."""
        rows = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        return self.features[rows], self.labels[rows]

    def between(self, start: int, stop: int) -> Dataset:
        """Return queries start to stop - 1 without copying a row."""
        rows = slice(int(self.offsets[start]), int(self.offsets[stop]))
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        return Dataset(self.name, self.features[rows], self.labels[rows], offsets, self.qids[start:stop])

    def take(self, queries: Sequence[int] | NDArray[np.int64]) -> Dataset:
        """Return these queries, in this order, as a copy."""
        chosen = np.asarray(queries, np.int64)
        return Dataset.joined([self.between(int(i), int(i) + 1) for i in chosen], self.name)

    @classmethod
    def joined(cls, parts: Sequence[Dataset], name: str) -> Dataset:
        """Return the queries of all parts, one part after another."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(
            name,
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.concatenate([part.qids for part in parts]),
        )

    @classmethod
    def from_arrays(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        name: str = "arrays",
        normalise: bool = True,
    ) -> Dataset:
        """Return the data set of these rows: X [n, d], y [n], and either qid [n] or group sizes [q].

        Rows of one qid need not be neighbours: they are brought together in their given order, and
        queries keep the order in which they are first seen. Features are scaled to [0, 1] in each
        query (constant in the query: 0) unless `normalise` is False.

        >>> data = Dataset.from_arrays([[1.0], [3.0], [5.0]], [0, 1, 2], qid=["a", "b", "a"])
        >>> data.qids.tolist(), data.lengths.tolist(), data.features[:, 0].tolist()
        (['a', 'b'], [2, 1], [0.0, 1.0, 0.0])
        """
        rows = _matrix(X)
        labels = _grades(y, len(rows))
        if (qid is None) == (group is None):
            raise BadInput("rows belong to queries", "give either qid (one per row) or group (sizes of the queries)")
        if qid is not None:
            order, offsets, names = grouped(_query_ids(qid, len(rows)))
            if order is not None:
                rows, labels = rows[order], labels[order]
        else:
            offsets = _offsets(group, len(rows))
            names = np.arange(len(offsets) - 1).astype(np.str_)
        features = normalised(rows, offsets) if normalise else rows.astype(np.float32)
        return cls(name, features, labels, offsets, names)


def compact(labels: NDArray[Any]) -> Labels:
    """Return whole-numbered labels in one byte each where they fit."""
    return labels.astype(np.int8) if labels.max(initial=0) <= np.iinfo(np.int8).max else labels.astype(np.int32)


def _numbers(values: Any, name: str, ndim: int) -> NDArray[np.float64]:
    wrong = BadInput(f"{name} is not numeric in rows of equal length", "give numbers only")
    try:
        array = np.asarray(values.toarray() if hasattr(values, "toarray") else values)  # SciPy's sparse matrices
        if array.dtype.kind not in "biufO":
            raise wrong
        numbers = array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise wrong from None
    if numbers.ndim != ndim:
        raise BadInput(f"{name} has {numbers.ndim} axes", f"it must have {ndim}")
    return numbers


def _matrix(X: ArrayLike) -> NDArray[np.float64]:
    rows = _numbers(X, "X", 2)
    if 0 in rows.shape:
        raise BadInput(f"X is empty: its shape is {rows.shape}", "give at least one document and one feature")
    good = np.abs(rows) <= LARGEST  # also False for NaN
    if not good.all():
        row, column = (int(i) for i in np.argwhere(~good)[0])
        raise BadInput(f"X[{row}, {column}] is {rows[row, column]}", "replace it by a finite float32 number")
    return rows


def _grades(y: ArrayLike, n: int) -> Labels:
    labels = _numbers(y, "y", 1)
    if len(labels) != n:
        raise BadInput(f"y has {len(labels)} labels for {n} rows of X", "give one label per row")
    good = (labels >= 0) & (labels == np.floor(labels)) & (labels <= np.iinfo(np.int32).max)
    if not good.all():
        row = int(np.argmin(good))
        raise BadInput(f"y[{row}] is {labels[row]}", "labels must be whole numbers of 0 or more")
    return compact(labels)


def _query_ids(qid: Any, n: int) -> NDArray[Any]:
    ids = np.asarray(qid)
    if ids.ndim != 1 or len(ids) != n:
        raise BadInput(f"qid has shape {ids.shape} for {n} rows of X", "give one query id per row")
    missing = [row for row, value in enumerate(ids.tolist()) if value is None or value != value or value == ""]
    if missing:
        raise BadInput(f"qid[{missing[0]}] is missing", "give every row a query id")
    return ids.astype(np.str_) if ids.dtype.kind not in "biuf" else ids


def _offsets(group: Any, n: int) -> Offsets:
    sizes = _numbers(group, "group", 1)
    good = (sizes > 0) & (sizes == np.floor(sizes))
    if not good.all():
        at = int(np.argmin(good))
        raise BadInput(f"group[{at}] is {sizes[at]:g}", "sizes must be whole numbers above 0")
    if sizes.sum() != n:
        raise BadInput(f"group adds up to {sizes.sum():g} rows but X has {n}", "make the sizes add up to the rows")
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def fingerprint(data: Dataset) -> str:
    """Return a short digest of the data set's content."""
    digest = hashlib.blake2b(digest_size=8)
    for array in (data.features, data.labels, data.offsets):
        digest.update(np.ascontiguousarray(array).data)
    if data.head is not None:
        digest.update(repr(data.head).encode())
    return digest.hexdigest()
