"""A transaction as both kinds of log have it: records go out together, and nothing is asked for twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from perturank.service.entries import FREQUENT, KINDS, Entry, Record
from perturank.service.log import sums
from perturank.service.log.rows import End, record


class Writing:
    """Keeps what was appended, and what was read, until the transaction ends: nobody else writes meanwhile.

    Every statement costs a turn of the interpreter's lock or of the network; one for many records costs one.
    """

    def __init__(self, position: int, at: int) -> None:
        self.tally = sums.Tally()
        self._end = End(position, at)
        self._rows: list[tuple[Any, ...]] = []  # appended, not yet sent
        self._about: dict[bytes, list[Record]] = {}
        self._newest: dict[tuple[str, type], Record | None] = {}

    def append(self, model: str, entry: Entry, impression: bytes | None = None) -> int:
        """Add an entry at the end and return its position."""
        self._rows.append(self._end.row(model, entry, impression))
        self._end.position += 1
        new = Record(self._end.position, self._end.at, model, impression, entry)
        if impression is not None and impression in self._about:
            self._about[impression].append(new)
        if KINDS[type(entry)] not in FREQUENT:
            self._newest[model, type(entry)] = new
        return self._end.position

    def foresee(self, impressions: Sequence[bytes]) -> None:
        """Read the records of these impressions at once: each will be asked for."""
        self.flush()
        self._about.update({each: [] for each in impressions})
        for row in self._read_about(list(dict.fromkeys(impressions))):
            found = record(row)
            assert found.impression is not None
            self._about[found.impression].append(found)

    def about(self, impression: bytes) -> list[Record]:
        """Return the records of one impression."""
        if impression not in self._about:
            self.foresee([impression])
        return list(self._about[impression])

    def newest(self, model: str, kind: type) -> Record | None:
        """Return the last record of this kind."""
        if (model, kind) not in self._newest:
            row = self._read_newest(model, kind)
            self._newest[model, kind] = row and record(row)
        return self._newest[model, kind]

    def cut(self, positions: Sequence[int], impressions: Sequence[bytes]) -> int:
        """Take records out; return how many."""
        self.flush()
        self._about.clear()
        self._newest.clear()
        return self._delete(positions, impressions)

    def flush(self) -> None:
        """Send what was appended."""
        rows, self._rows = self._rows, []
        if rows:
            self._insert(rows)

    def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        """Write rows of the log."""
        raise NotImplementedError

    def _read_about(self, impressions: list[bytes]) -> Iterable[Any]:
        """Return the rows of these impressions, in order."""
        raise NotImplementedError

    def _read_newest(self, model: str, kind: type) -> Any:
        """Return the last row of this kind."""
        raise NotImplementedError

    def _delete(self, positions: Sequence[int], impressions: Sequence[bytes]) -> int:
        """Take rows out; return how many."""
        raise NotImplementedError
