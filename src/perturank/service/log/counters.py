"""Counters of lists, events and learning, in a table beside the log: a row for each model, period and name.

The log's own transactions write them. A model has totals, and counters of each minute in which something happened.
Minutes older than three hours are added up to hours; hours older than a month are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple, get_args

import msgspec

from perturank.service.log import quality, shadow
from perturank.service.log.records import Event, EventKey, Impression, document_worths
from perturank.wire.specification import CLICK as CLICKED
from perturank.wire.specification import ShownMode

PROGRESS, TOTAL, MINUTE, HOUR = -1, 0, 60, 3600  # the seconds of a period; the first two have no end
MINUTES_KEPT, HOURS_KEPT = 180, 720
LISTS, LENGTH, CLICK, FEEDBACK, EVENTS, VALUE, UBI = (
    "lists ",
    "length ",
    "click ",
    "feedback ",
    "events ",
    "value ",
    "ubi ",
)  # names begin so; a mode, a number, an action or a status follows
REWARD = "reward"  # the worth of all documents, by the actions that they met with
PLACES, CERTAIN = "places", "certain places"  # of lists that might have explored
SAMPLED, UNCERTAIN = "sampled queries", "uncertain share"
LEARNED, UPDATES, UPDATE_SECONDS = "learned", "updates", "update seconds"
LARGEST = "largest "  # begins the names of counters that keep the largest amount, not the sum
LAGS, LAG = "lags", "lag"  # from click to version: how many, and seconds
POSITIONS = tuple(LARGEST + name for name in ("completed position", "learned position", "waiting since"))
KEY = "model, span, start, name"
COLUMNS = f"""model TEXT NOT NULL, span INTEGER NOT NULL, start BIGINT NOT NULL, name TEXT NOT NULL,
    amount DOUBLE PRECISION NOT NULL, PRIMARY KEY ({KEY})"""
IS_LARGEST = f"substr({{}}name, 1, {len(LARGEST)}) = '{LARGEST}'"

Amounts = dict[str, float]
Execute = Callable[[str, tuple[Any, ...]], Iterable[tuple[Any, ...]]]  # SQL with question marks


class PeriodCounters(NamedTuple):
    """A model's counters over `span` seconds from `start` (seconds since 1970)."""

    model: str
    span: int
    start: int
    amounts: Amounts


class LearningProgress(NamedTuple):
    """Positions of the last entry that completes impressions, and of the last one that a version contains."""

    completed: int
    learned: int
    since: int  # milliseconds since 1970: when the oldest unlearned completion can have come, at the earliest

    @classmethod
    def of(cls, amounts: Mapping[str, float]) -> LearningProgress:
        """Return the progress that these counters hold."""
        return cls(*(int(amounts.get(name, 0)) for name in POSITIONS))

    def lag(self, now: int) -> float:
        """Return for how many seconds something has been waiting to be learned; 0: nothing is."""
        return max(0, now - self.since) / 1000 if self.completed > self.learned else 0.0


@dataclass
class PendingCounters:
    """What one transaction adds to the counters."""

    amounts: dict[str, Amounts] = field(default_factory=dict)  # by model, as all of these
    completed: dict[str, int] = field(default_factory=dict)  # the last entry that completes impressions
    learned: dict[str, tuple[int, int]] = field(default_factory=dict)  # position and time up to which all is published
    deleted: set[str] = field(default_factory=set)  # models

    def add(self, model: str, amounts: Mapping[str, float]) -> None:
        """Add amounts to a model's counters."""
        merge(self.amounts.setdefault(model, {}), amounts)

    def write(self, execute: Execute, table: str, at: int) -> None:
        """Write everything to the table, in the log's transaction."""
        minute = at // 1000 // MINUTE * MINUTE
        for model in self.deleted:
            execute(f"DELETE FROM {table} WHERE model = ?", (model,))
        for model in {*self.amounts, *self.completed, *self.learned} - self.deleted:
            progress = self._progress(execute, table, model, at)
            amounts = self.amounts.get(model, {})
            newest = f"SELECT 1 FROM {table} WHERE model = ? AND span = {MINUTE} AND start = ? LIMIT 1"
            if amounts and not list(execute(newest, (model, minute))):
                _fold(execute, table, model, minute)
            _add(execute, table, model, (PROGRESS, 0, progress), (TOTAL, 0, amounts), (MINUTE, minute, amounts))

    def _progress(self, execute: Execute, table: str, model: str, at: int) -> Amounts:
        """Return what moves in a model's progress, and count the lag of what has just been learned."""
        if model not in self.completed and model not in self.learned:
            return {}
        query = f"SELECT name, amount FROM {table} WHERE model = ? AND span = {PROGRESS}"
        before = completed, learned, since = LearningProgress.of(dict(execute(query, (model,))))
        if model in self.learned:
            if learned < completed:
                self.add(model, {LAGS: 1, LAG: before.lag(at), LARGEST + LAG: before.lag(at)})
            position, read_at = self.learned[model]
            learned, since = max(position, learned), max(since, read_at)
        if model in self.completed:
            since = at if completed <= learned else since
            completed = self.completed[model]
        moved = zip(POSITIONS, (completed, learned, since), before, strict=True)
        return {name: now for name, now, was in moved if now != was}


def merge(into: Amounts, amounts: Mapping[str, float]) -> None:
    """Add amounts to others."""
    for name, amount in amounts.items():
        before = into.get(name, 0)
        into[name] = max(before, amount) if name.startswith(LARGEST) else before + amount


def read(
    execute: Execute, table: str, spans: Sequence[int], since: int, of: str = "TRUE", values: tuple[Any, ...] = ()
) -> list[PeriodCounters]:
    """Return the counters of periods of these lengths from `since` on, and totals; `of`: a condition on models."""
    query = f"SELECT {KEY}, amount FROM {table} WHERE span = ? AND start >= ? AND {of} ORDER BY {KEY}"
    found = []
    for span in spans:
        rows = execute(query, (span, since if span > 0 else 0, *values))
        for (name, start), group in groupby(rows, key=lambda row: (row[0], row[2])):
            found.append(PeriodCounters(name, span, start, {row[3]: row[4] for row in group}))
    return sorted(found)


def by_hour(rows: Iterable[PeriodCounters]) -> list[PeriodCounters]:
    """Return minutes and hours as hours, oldest first."""
    hours: dict[tuple[str, int], Amounts] = {}
    for row in rows:
        merge(hours.setdefault((row.model, row.start // HOUR * HOUR), {}), row.amounts)
    return [PeriodCounters(model, HOUR, start, amounts) for (model, start), amounts in sorted(hours.items())]


def migrate(execute: Execute, old: str, table: str) -> None:
    """Move the counters of a log of an earlier version, whose table has one row for all amounts of a period."""
    for model, span, start, body in list(execute(f"SELECT model, span, start, body FROM {old}", ())):
        amounts, progress = msgspec.msgpack.decode(body)
        positions = {} if progress is None else dict(zip(POSITIONS, progress, strict=True))
        _add(execute, table, model, (PROGRESS, 0, positions), (span, start, amounts))
    execute(f"DROP TABLE {old}", ())


def _add(execute: Execute, table: str, model: str, *periods: tuple[int, int, Amounts]) -> None:
    values: list[Any] = []
    for span, start, amounts in periods:
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


def list_amounts(entry: Impression, certain: Sequence[bool]) -> Amounts:
    """Return what a list adds to the counters."""
    amounts = {LISTS + entry.mode: 1.0, f"{LENGTH}{len(entry.ids)}": 1.0}
    if entry.mode == "learn":
        amounts |= {PLACES: len(certain), CERTAIN: sum(certain)}
    return amounts | quality.list_amounts(entry) | shadow.list_amounts(entry)


def event_amounts(
    shown: Impression, known: Collection[EventKey], new: Collection[Event], actions: Mapping[str, float]
) -> Amounts:
    """Return what new events of a list add to the counters."""
    amounts: Amounts = {}
    for event in new:
        merge(amounts, {EVENTS + event.action: 1})
        if event.value is not None:
            merge(amounts, {VALUE + event.action: event.value})
        if event.action == CLICKED:
            merge(amounts, {f"{CLICK}{shown.ids.index(event.id) + 1}": 1})
    after = [*known, *(event.key for event in new)]
    gain = sum(document_worths(after, actions).values()) - sum(document_worths(known, actions).values())
    if gain:
        amounts[REWARD] = gain
    amounts |= quality.event_amounts(shown, known, after, actions)
    return amounts | shadow.event_amounts(shown, known, after, actions)


def by_place(amounts: Mapping[str, float]) -> list[dict[str, int]]:
    """Return each place, from the first on, with how often something was shown there and clicked."""
    lengths, clicks = _numbered(amounts, LENGTH), _numbered(amounts, CLICK)
    places = range(1, max([*lengths, *clicks], default=0) + 1)
    seen = [int(sum(n for length, n in lengths.items() if length >= place)) for place in places]
    return [{"place": i, "shown": n, "clicks": int(clicks.get(i, 0))} for i, n in zip(places, seen, strict=True)]


def by_action(amounts: Mapping[str, float], prefix: str) -> Amounts:
    """Return the amounts whose names are this prefix and an action, by action; or a status, by status."""
    return {name.removeprefix(prefix): amount for name, amount in amounts.items() if name.startswith(prefix)}


def summary(amounts: Mapping[str, float]) -> dict[str, Any]:
    """Return counts, means and shares of these counters; None where there is nothing to divide by."""
    return {
        "lists": {mode: int(amounts.get(LISTS + mode, 0)) for mode in get_args(ShownMode)},
        "feedback": {status: int(amounts.get(FEEDBACK + status, 0)) for status in ("recorded", "early", "late")},
        "clicks": int(sum(_numbered(amounts, CLICK).values())),
        "events": {action: int(n) for action, n in by_action(amounts, EVENTS).items()},
        "values": by_action(amounts, VALUE),
        "ubi": {status: int(n) for status, n in by_action(amounts, UBI).items()},
        "reward": amounts.get(REWARD, 0.0),
        "certain_places": _ratio(amounts, CERTAIN, PLACES),
        "uncertain_pairs": _ratio(amounts, UNCERTAIN, SAMPLED),
        "learned": int(amounts.get(LEARNED, 0)),
        "updates": int(amounts.get(UPDATES, 0)),
        "update_seconds": _ratio(amounts, UPDATE_SECONDS, UPDATES),
        "lag": _ratio(amounts, LAG, LAGS),
        "largest_lag": amounts.get(LARGEST + LAG),
        "quality": quality.summary(amounts),
        "exploration": quality.exploration(amounts),
        "shadow": shadow.summary(amounts),
    }


def _numbered(amounts: Mapping[str, float], prefix: str) -> dict[int, float]:
    """Return the amounts whose names are this prefix and a number, by number."""
    return {int(name.removeprefix(prefix)): amount for name, amount in amounts.items() if name.startswith(prefix)}


def _ratio(amounts: Mapping[str, float], above: str, below: str) -> float | None:
    return amounts.get(above, 0) / amounts[below] if amounts.get(below) else None
