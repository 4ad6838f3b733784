"""Running sums beside the log, written in its transactions: a row for each model, span of time and name.

A model has totals, and sums of each minute in which something happened. Minutes older than three hours are
added up to hours; hours older than a month are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

PROGRESS, TOTAL, MINUTE, HOUR = -1, 0, 60, 3600  # the seconds that a sum is about; the first two have no end
MINUTES_KEPT, HOURS_KEPT = 180, 720
LARGEST = "largest "  # begins the names of amounts of which the largest is kept, not the sum
LAGS, LAG = "lags", "lag"  # from click to version: how many, and seconds
POSITIONS = tuple(LARGEST + name for name in ("completed position", "learned position", "waiting since"))
KEY = "model, span, start, name"
COLUMNS = f"""model TEXT NOT NULL, span INTEGER NOT NULL, start BIGINT NOT NULL, name TEXT NOT NULL,
    amount DOUBLE PRECISION NOT NULL, PRIMARY KEY ({KEY})"""
IS_LARGEST = f"substr({{}}name, 1, {len(LARGEST)}) = '{LARGEST}'"

Amounts = dict[str, float]
Execute = Callable[[str, tuple[Any, ...]], Iterable[tuple[Any, ...]]]  # SQL with question marks


class Sums(NamedTuple):
    """Sums over `span` seconds from `start` (seconds since 1970)."""

    model: str
    span: int
    start: int
    amounts: Amounts


class LearningProgress(NamedTuple):
    """Positions of the last entry that completes impressions, and of the last one that a version contains."""

    done: int
    through: int
    since: int  # milliseconds since 1970: when the oldest unlearned completion can have come, at the earliest

    @classmethod
    def of(cls, amounts: Mapping[str, float]) -> LearningProgress:
        """Return the progress that these amounts say."""
        return cls(*(int(amounts.get(name, 0)) for name in POSITIONS))

    def lag(self, now: int) -> float:
        """Return for how many seconds something has been waiting to be learned; 0: nothing is."""
        return max(0, now - self.since) / 1000 if self.done > self.through else 0.0


@dataclass
class Tally:
    """What one transaction adds to the sums."""

    amounts: dict[str, Amounts] = field(default_factory=dict)  # by model, as all of these
    completed: dict[str, int] = field(default_factory=dict)  # the last entry that completes impressions
    reached: dict[str, tuple[int, int]] = field(default_factory=dict)  # up to here, of this time, all is published
    forgotten: set[str] = field(default_factory=set)  # models that are deleted

    def add(self, model: str, amounts: Mapping[str, float]) -> None:
        """Add amounts to a model's sums."""
        merge(self.amounts.setdefault(model, {}), amounts)

    def write(self, execute: Execute, table: str, at: int) -> None:
        """Bring the table up to date in the log's transaction."""
        minute = at // 1000 // MINUTE * MINUTE
        for model in self.forgotten:
            execute(f"DELETE FROM {table} WHERE model = ?", (model,))
        for model in {*self.amounts, *self.completed, *self.reached} - self.forgotten:
            progress = self._progress(execute, table, model, at)
            amounts = self.amounts.get(model, {})
            newest = f"SELECT 1 FROM {table} WHERE model = ? AND span = {MINUTE} AND start = ? LIMIT 1"
            if amounts and not list(execute(newest, (model, minute))):
                _fold(execute, table, model, minute)
            _add(execute, table, model, (PROGRESS, 0, progress), (TOTAL, 0, amounts), (MINUTE, minute, amounts))

    def _progress(self, execute: Execute, table: str, model: str, at: int) -> Amounts:
        """Return what moves in a model's progress, and count the lag of what has just been learned."""
        if model not in self.completed and model not in self.reached:
            return {}
        query = f"SELECT name, amount FROM {table} WHERE model = ? AND span = {PROGRESS}"
        held = done, through, since = LearningProgress.of(dict(execute(query, (model,))))
        if model in self.reached:
            if through < done:
                self.add(model, {LAGS: 1, LAG: held.lag(at), LARGEST + LAG: held.lag(at)})
            position, read_at = self.reached[model]
            through, since = max(position, through), max(since, read_at)
        if model in self.completed:
            since = at if done <= through else since
            done = self.completed[model]
        moved = zip(POSITIONS, (done, through, since), held, strict=True)
        return {name: now for name, now, before in moved if now != before}


def merge(into: Amounts, amounts: Mapping[str, float]) -> None:
    """Add amounts to others."""
    for name, amount in amounts.items():
        before = into.get(name, 0)
        into[name] = max(before, amount) if name.startswith(LARGEST) else before + amount


def read(execute: Execute, table: str, spans: Sequence[int], since: int, model: str | None = None) -> list[Sums]:
    """Return the sums over these spans from `since` on, and totals, of one model or of all; oldest first."""
    of_model, values = ("", ()) if model is None else ("AND model = ?", (model,))
    query = f"SELECT {KEY}, amount FROM {table} WHERE span = ? AND start >= ? {of_model} ORDER BY {KEY}"
    found = []
    for span in spans:
        rows = execute(query, (span, since if span > 0 else 0, *values))
        for (name, start), group in groupby(rows, key=lambda row: (row[0], row[2])):
            found.append(Sums(name, span, start, {row[3]: row[4] for row in group}))
    return sorted(found)


def by_hour(rows: Iterable[Sums]) -> list[Sums]:
    """Return minutes and hours as hours, oldest first."""
    hours: dict[tuple[str, int], Amounts] = {}
    for row in rows:
        merge(hours.setdefault((row.model, row.start // HOUR * HOUR), {}), row.amounts)
    return [Sums(model, HOUR, start, amounts) for (model, start), amounts in sorted(hours.items())]


def migrate(execute: Execute, old: str, table: str) -> None:
    """Move the sums of a log that has one row for all amounts of a span."""
    for model, span, start, body in list(execute(f"SELECT model, span, start, body FROM {old}", ())):
        amounts, progress = msgspec.msgpack.decode(body)
        positions = {} if progress is None else dict(zip(POSITIONS, progress, strict=True))
        _add(execute, table, model, (PROGRESS, 0, positions), (span, start, amounts))
    execute(f"DROP TABLE {old}", ())


def _add(execute: Execute, table: str, model: str, *sums: tuple[int, int, Amounts]) -> None:
    values: list[Any] = []
    for span, start, amounts in sums:
        for name, amount in amounts.items():
            values += (model, span, start, name, amount)
    if values:
        execute(_upsert(table, f"VALUES {', '.join(['(?, ?, ?, ?, ?)'] * (len(values) // 5))}"), tuple(values))


@cache
def _upsert(table: str, rows: str) -> str:
    """Return the statement that adds rows to those of the table."""
    return f"""INSERT INTO {table} {rows} ON CONFLICT ({KEY}) DO UPDATE SET amount = CASE
        WHEN NOT {IS_LARGEST.format(table + ".")} THEN {table}.amount + excluded.amount
        WHEN excluded.amount > {table}.amount THEN excluded.amount ELSE {table}.amount END"""


def _fold(execute: Execute, table: str, model: str, minute: int) -> None:
    """Add old minutes to their hours; delete them, and old hours."""
    old, hour = minute - MINUTES_KEPT * MINUTE, f"start / {HOUR} * {HOUR}"
    amount = f"CASE WHEN {IS_LARGEST.format('')} THEN max(amount) ELSE sum(amount) END"
    minutes = f"FROM {table} WHERE model = ? AND span = {MINUTE} AND start < ? GROUP BY model, {hour}, name"
    execute(_upsert(table, f"SELECT model, {HOUR}, {hour}, name, {amount} {minutes}"), (model, old))
    for span, before in ((MINUTE, old), (HOUR, minute - HOURS_KEPT * HOUR)):
        execute(f"DELETE FROM {table} WHERE model = ? AND span = {span} AND start < ?", (model, before))
