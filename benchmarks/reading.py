"""Section `reading`: SVMrank text, and the cache that is kept of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.section import Advance, Column, Effort, Row, Rows, Section
from perturank import datasets
from perturank.sweeps.speed import clock

N_FEATURES = 136
N_DOCUMENTS = 100  # a query

COLUMNS = (
    Column("text_mb_per_second", "text MB/s", "rate", "{:,.0f}"),
    Column("documents_per_second", "documents/s", "rate", "{:,.0f}"),
    Column("seconds", "seconds", "fact"),
    Column("megabytes", "MB on disk", "fact", "{:,.1f}"),
)


def measure(effort: Effort, advance: Advance) -> Rows:
    """Return a row for the text and one for the cache; every feature is read, not only mapped."""
    rows: Rows = {}
    with tempfile.TemporaryDirectory() as folder, _cache_in(Path(folder) / "cache"):
        path = Path(folder) / "made-up.txt"
        size = write_text(path, effort.text_bytes)
        advance("text written")
        for name in ("SVMrank text, first reading", "cache, second reading"):
            began = clock()
            fold = datasets.load(path)
            touched = sum(float(part.features.sum()) for part in fold.splits.values())
            seconds = clock() - began
            assert np.isfinite(touched)
            n = sum(part.n_documents for part in fold.splits.values())
            stored = size if not rows else sum(file.stat().st_size for file in (Path(folder) / "cache").rglob("*.npy"))
            values = {"text_mb_per_second": size / seconds / 1e6, "documents_per_second": n / seconds}
            rows[name] = Row({**values, "seconds": seconds, "megabytes": stored / 1e6})
            advance(name)
    return rows


def write_text(path: Path, n_bytes: int) -> int:
    """Write about so many bytes of SVMrank text; return how many."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        query = 0
        while query < 3 or file.tell() < n_bytes:
            query += 1
            values = rng.random((N_DOCUMENTS, N_FEATURES))
            for grade, row in zip(rng.integers(0, 5, N_DOCUMENTS), values, strict=True):
                pairs = " ".join(f"{i}:{value:.6f}" for i, value in enumerate(row, start=1))
                file.write(f"{grade} qid:{query} {pairs}\n")
    return path.stat().st_size


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Let parsed files be kept in this folder, so that the user's own cache stays as it is."""
    before = os.environ.get("PERTURANK_CACHE")
    os.environ["PERTURANK_CACHE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PERTURANK_CACHE"]
        else:
            os.environ["PERTURANK_CACHE"] = before


SECTION = Section(
    "reading",
    "",
    "one file of text, first parsed, then opened from the cache",
    lambda effort: COLUMNS,
    lambda e: 3,
    measure,
)
