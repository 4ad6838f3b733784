"""Rows brought together by query, and features scaled within each query."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_ROWS = 32_768


def grouped(qid: NDArray[Any]) -> tuple[NDArray[np.int64] | None, NDArray[np.int64], NDArray[np.str_]]:
    """Return the stable order of rows that joins each query's rows, offsets [q + 1] and names [q].

    Queries keep the order in which they are first seen. The order is None where the rows are
    together already, as in nearly every file, so that nothing is copied.
    """
    starts = np.flatnonzero(np.concatenate([[True], qid[1:] != qid[:-1]]))
    names = qid[starts]
    if len(np.unique(names)) == len(names):
        return None, np.append(starts, len(qid)).astype(np.int64), names.astype(np.str_)
    unique, first, number = np.unique(qid, return_index=True, return_inverse=True)
    seen = np.argsort(first)  # unique is in sorted order; queries go by first sight
    place = np.empty_like(seen)
    place[seen] = np.arange(len(seen))
    order = np.argsort(place[number], kind="stable")
    sizes = np.bincount(place[number])
    return order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), unique[seen].astype(np.str_)


def normalised(rows: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the features scaled to [0, 1] within each query; constant in the query: 0; [n, d].

    Differences are taken in float64: neighbours near 10^8 would be equal in float32.
    """
    scaled = np.empty(rows.shape, np.float32)
    first = 0
    while first < len(offsets) - 1:  # blocks of whole queries keep the float64 copies small
        last = int(np.searchsorted(offsets, offsets[first] + BLOCK_ROWS, side="right")) - 1
        last = min(max(last, first + 1), len(offsets) - 1)
        start, stop = int(offsets[first]), int(offsets[last])
        scaled[start:stop] = _scaled(rows[start:stop], offsets[first : last + 1] - start)
        first = last
    return scaled


def _scaled(rows: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    starts, lengths = offsets[:-1], np.diff(offsets)
    low: NDArray[np.float64] = np.minimum.reduceat(rows, starts, axis=0)
    span = np.maximum.reduceat(rows, starts, axis=0) - low
    span[span == 0] = 1
    scaled: NDArray[np.float64] = rows - np.repeat(low, lengths, axis=0)
    scaled /= np.repeat(span, lengths, axis=0)
    return scaled
