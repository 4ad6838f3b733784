"""Records as rows of a table: what both kinds of log share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from perturank.service.entries import KINDS, REGULAR, Entry, Record, decoded, encoded

PAGE = 500  # records read at once
COLUMNS = "position, at, model, impression, body"


def record(row: Sequence[Any]) -> Record:
    """Return the record of a row of COLUMNS."""
    return Record(row[0], row[1], row[2], row[3], decoded(row[4]))


def are_few(kinds: Sequence[type] | None) -> bool:
    """Return whether none of these kinds comes by traffic alone."""
    return kinds is not None and not any(KINDS[kind] in REGULAR for kind in kinds)


def among(kinds: Sequence[type] | None) -> str:
    """Return the part of a condition that lets only these kinds through; None: all."""
    return "" if kinds is None else f" AND kind IN ({', '.join(str(KINDS[kind]) for kind in kinds)})"


def paged(fetch: Callable[[int], list[Any]], after: int, end: int) -> Iterator[Record]:
    """Yield the records behind a position; `fetch(after)` gives the next rows, so that writers are not held up."""
    while after < end:
        rows = fetch(after)
        if not rows:
            return
        yield from map(record, rows)
        after = rows[-1][0]


class End:
    """Where a log ends while a transaction writes; a clock that is set back does not turn the log around."""

    def __init__(self, position: int, at: int) -> None:
        self.position = position
        self.at = max(at, time.time_ns() // 1_000_000)

    def row(self, model: str, entry: Entry, impression: bytes | None) -> tuple[Any, ...]:
        """Return the row of the next record: position, at, kind, model, impression, body."""
        return self.position + 1, self.at, KINDS[type(entry)], model, impression, encoded(entry)
