"""Section `latency`: how long one call of `rank` takes when all is compiled, by the clock on the wall."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks.loop import TOP, fresh
from benchmarks.section import TAIL, Advance, Column, Effort, Row, Rows, Section
from perturank.core import Query

NAMES = ("p2headrank", "p2neurrank", "p2linrank", "pdgd-linear")
N_FEATURES = 136
FEWEST, MOST = 5, 1000  # calls


def columns(effort: Effort) -> tuple[Column, ...]:
    """Return a column per number of documents."""
    return tuple(Column(f"ms_of_{n}", f"{n:,} docs", "time") for n in effort.documents)


def measure(effort: Effort, advance: Advance) -> Rows:
    """Return rows for the median and the 99th percentile, with and without the making of the query."""
    rows: Rows = {}
    for name in NAMES:
        ranker: Any = fresh(name, N_FEATURES)
        for n in effort.documents:
            for what, call in _calls(ranker, n).items():
                median, last = _quantiles(call, effort.seconds / 2)
                rows.setdefault(f"{name}, {what}", Row()).values[f"ms_of_{n}"] = 1e3 * median
                rows.setdefault(f"{name}, {what}, {TAIL}", Row()).values[f"ms_of_{n}"] = 1e3 * last
            advance(f"{name}, {n:,} documents")
    return rows


def _calls(ranker: Any, n_documents: int) -> dict[str, Callable[[], Any]]:
    features = np.random.default_rng(0).random((n_documents, N_FEATURES), dtype=np.float32)
    query, key = Query.of(features), jax.random.key(0)
    return {
        "rank": lambda: ranker.rank(query, key, TOP),
        "Query.of + rank": lambda: ranker.rank(Query.of(features), key, TOP),
    }


def _quantiles(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Return the median and the 99th percentile of as many calls as fit into so many seconds."""
    for _ in range(2):
        jax.block_until_ready(call())  # type: ignore[no-untyped-call]
    times: list[float] = []
    while len(times) < FEWEST or (sum(times) < seconds and len(times) < MOST):
        began = time.perf_counter()
        jax.block_until_ready(call())  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - began)
    median, last = np.quantile(times, [0.5, 0.99])
    return float(median), float(last)


SECTION = Section(
    "latency",
    "ms a call",
    f"one call, {N_FEATURES} features: median, and the 99th percentile (p99)",
    columns,
    lambda effort: len(NAMES) * len(effort.documents),
    measure,
)
