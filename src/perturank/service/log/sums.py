"""Running sums beside the log, written in its transactions: questions about a million impressions read a few rows.

A model has one row of totals and one for each minute in which something happened. Minutes become
hours after a while and hours are dropped at last, so that there are never more than MOST_ROWS.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

TOTAL, MINUTE, HOUR = 0, 60, 3600  # how many seconds a row is about; the total is about all
MINUTES_KEPT = 180
HOURS_KEPT = 720
MOST_ROWS = 1 + MINUTES_KEPT + 1 + HOURS_KEPT + 1  # of one model
LARGEST = "largest "  # what is named so is not added up: the largest counts
COLUMNS = "model TEXT NOT NULL, span INTEGER NOT NULL, start BIGINT NOT NULL"

Amounts = dict[str, float]
Execute = Callable[[str, tuple[Any, ...]], Iterable[tuple[Any, ...]]]


class Progress(msgspec.Struct, array_like=True):
    """How far learning is: positions of the last completing entry and of the last one that a version contains."""

    done: int = 0
    through: int = 0
    since: int = 0  # milliseconds since 1970: when the oldest unlearned completion can have come, at the earliest

    def lag(self, now: int) -> float:
        """Return for how many seconds something has been waiting to be learned; 0: nothing is."""
        return max(0, now - self.since) / 1000 if self.done > self.through else 0.0


class Lags:
    """The lags of models as one process sees them: by the log's times, and by a clock that cannot be set back.

    While the clock stands behind the log, the log's times stand still, and no lag would ever be seen in them.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, float]] = {}  # how far learning was, and since when it has been so

    def of(self, model: str, progress: Progress) -> float:
        """Return for how many seconds something has been waiting to be learned, at least since this was first asked."""
        if progress.done <= progress.through:
            self._waiting.pop(model, None)
            return 0.0
        now = time.monotonic()
        through, since = self._waiting.get(model, (-1, now))
        if through != progress.through:
            self._waiting[model] = progress.through, now
            since = now
        return max(progress.lag(time.time_ns() // 1_000_000), now - since)


class Body(msgspec.Struct, array_like=True):
    """The content of a row; progress only in the total."""

    amounts: Amounts
    progress: Progress | None = None


class Sums(msgspec.Struct, frozen=True):
    """A row: sums over `span` seconds from `start` (seconds since 1970)."""

    model: str
    span: int
    start: int
    body: Body


_encoded = msgspec.msgpack.Encoder().encode
_decoded = msgspec.msgpack.Decoder(Body).decode


class Tally:
    """What one transaction adds to the sums."""

    def __init__(self) -> None:
        self._amounts: dict[str, Amounts] = {}
        self._completed: dict[str, int] = {}
        self._reached: dict[str, tuple[int, int]] = {}
        self._forgotten: set[str] = set()

    def add(self, model: str, amounts: Mapping[str, float]) -> None:
        """Add amounts to a model's sums."""
        merge(self._amounts.setdefault(model, {}), amounts)

    def completes(self, model: str, position: int) -> None:
        """Note an entry that completes impressions, which are then to be learned."""
        self._completed[model] = position

    def reached(self, model: str, position: int, at: int) -> None:
        """Note that all entries up to here, of this time, are learned and published as far as they ever will be."""
        self._reached[model] = (position, at)

    def forget(self, model: str) -> None:
        """Drop everything about a model."""
        self._forgotten.add(model)

    def write(self, execute: Execute, table: str, at: int) -> None:
        """Bring the sums up to date; `execute` runs SQL with question marks in the log's transaction."""
        for model in self._forgotten:
            execute(f"DELETE FROM {table} WHERE model = ?", (model,))
        for model in {*self._amounts, *self._completed, *self._reached} - self._forgotten:
            self._write(execute, table, model, at)

    def _write(self, execute: Execute, table: str, model: str, at: int) -> None:
        minute = at // 1000 // MINUTE * MINUTE
        where = f"model = ? AND ((span = {TOTAL} AND start = 0) OR (span = {MINUTE} AND start = ?))"
        rows = execute(f"SELECT span, body FROM {table} WHERE {where}", (model, minute))
        held = {span: _decoded(body) for span, body in rows}
        total, newest = held.get(TOTAL, Body({})), held.get(MINUTE, Body({}))
        amounts = self._amounts.get(model, {})
        total.progress = total.progress or Progress()
        merge(amounts, self._moved(model, total.progress, at))
        merge(total.amounts, amounts)
        merge(newest.amounts, amounts)
        put(execute, table, model, TOTAL, 0, total)
        put(execute, table, model, MINUTE, minute, newest)
        if MINUTE not in held:
            _fold(execute, table, model, minute)

    def _moved(self, model: str, progress: Progress, at: int) -> Amounts:
        """Move the progress; return the lag of what has just been learned."""
        found: Amounts = {}
        if model in self._reached:
            position, read_at = self._reached[model]
            lag = progress.lag(at)
            if progress.through < progress.done:
                found = {"lags": 1, "lag": lag, LARGEST + "lag": lag}
            progress.through = max(position, progress.through)
            progress.since = max(progress.since, read_at)
        if model in self._completed:
            if progress.done <= progress.through:
                progress.since = at
            progress.done = self._completed[model]
        return found


def merge(into: Amounts, amounts: Mapping[str, float]) -> None:
    """Add amounts to others."""
    for name, amount in amounts.items():
        before = into.get(name, 0)
        into[name] = max(before, amount) if name.startswith(LARGEST) else before + amount


def put(execute: Execute, table: str, model: str, span: int, start: int, body: Body) -> None:
    """Write a row in place of what was there."""
    values = f"INSERT INTO {table} (model, span, start, body) VALUES (?, ?, ?, ?)"
    execute(
        f"{values} ON CONFLICT (model, span, start) DO UPDATE SET body = EXCLUDED.body",
        (*(model, span, start), _encoded(body)),
    )


def read(execute: Execute, table: str, spans: tuple[int, ...], since: int, model: str | None = None) -> list[Sums]:
    """Return the rows of these spans from `since` on, and totals, of one model or of all; oldest first."""
    asked = ", ".join(map(str, spans))
    query = f"SELECT model, span, start, body FROM {table} WHERE span IN ({asked}) AND (start >= ? OR span = {TOTAL})"
    query, values = (query, (since,)) if model is None else (f"{query} AND model = ?", (since, model))
    rows = execute(f"{query} ORDER BY model, span, start", values)
    return [Sums(model, span, start, _decoded(body)) for model, span, start, body in rows]


def by_hour(rows: Iterable[Sums]) -> list[Sums]:
    """Return minutes and hours as hours, oldest first: minutes become hours only when they are long past."""
    hours: dict[tuple[str, int], Amounts] = {}
    for row in rows:
        hour = row.model, row.start // HOUR * HOUR
        if hour in hours:
            merge(hours[hour], row.body.amounts)
        else:
            hours[hour] = dict(row.body.amounts)
    return [Sums(model, HOUR, start, Body(amounts)) for (model, start), amounts in sorted(hours.items())]


def _fold(execute: Execute, table: str, model: str, minute: int) -> None:
    """Add minutes that are long past to their hours, and drop hours that nobody asks for any more."""
    old = minute - MINUTES_KEPT * MINUTE
    query = f"SELECT start, body FROM {table} WHERE model = ? AND span = {MINUTE} AND start < ?"
    hours: dict[int, Amounts] = defaultdict(dict)
    for start, body in list(execute(query, (model, old))):
        merge(hours[start // HOUR * HOUR], _decoded(body).amounts)
    one = f"SELECT body FROM {table} WHERE model = ? AND span = {HOUR} AND start = ?"
    for start, amounts in hours.items():
        held = [_decoded(body) for (body,) in execute(one, (model, start))]
        merge(amounts, held[0].amounts if held else {})
        put(execute, table, model, HOUR, start, Body(amounts))
    for span, before in ((MINUTE, old), (HOUR, minute - HOURS_KEPT * HOUR)):
        execute(f"DELETE FROM {table} WHERE model = ? AND span = {span} AND start < ?", (model, before))
