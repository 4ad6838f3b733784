"""The log's SQL statements; the classes for SQLite and PostgreSQL define what differs."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from perturank.service.log import counters
from perturank.service.log.records import (
    KINDS,
    ROUTINE_KINDS,
    TRAFFIC_KINDS,
    Changed,
    CurrentModel,
    Deleted,
    Entry,
    Record,
    decoded,
    encoded,
)
from perturank.service.log.refusals import NotKnown

PAGE = 500  # records read at once
COLUMNS = "position, at, model, impression, body"
LAST_POSITION = 2**63 - 1

Execute = Callable[[str, tuple[Any, ...]], Iterable[Any]]


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed."""

    def fetchone(self) -> Any:
        """Return the next row; None: there is none."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """What both kinds of connections have in common."""

    def close(self) -> None:
        """End the connection."""


C = TypeVar("C", bound=Connection)


class SqlLog(ABC, Generic[C]):
    """A log in a database.

    Each read and each transaction borrows an idle connection, or opens one: a reader does not wait for the writer.
    """

    prefix: ClassVar[str]  # of the names of tables and indexes
    position_type: ClassVar[str]
    bytes_type: ClassVar[str]
    by_key: ClassVar[str] = ""  # at the end of a table that is stored in the order of its key
    numbers: ClassVar[str]  # the table of numbers by name
    end: ClassVar[str]  # the query for position and time of the last record
    end_for_update: ClassVar[str]  # the same, in a transaction
    starts_with: ClassVar[str]  # the condition that a name begins with the one parameter
    lost: ClassVar[tuple[type[Exception], ...]] = ()  # errors after which every open connection is broken

    secret: bytes

    def __init__(self) -> None:
        self._idle: deque[C] = deque()
        self._is_closed = False

    @abstractmethod
    def connect(self) -> C:
        """Return a new connection."""

    @abstractmethod
    def execute(self, connection: C, query: str, values: Sequence[Any] = ()) -> Cursor:
        """Run a statement whose parameters are question marks."""

    @abstractmethod
    def insert(self, connection: C, rows: list[tuple[Any, ...]]) -> None:
        """Write rows of the log: position, at, kind, model, impression, body."""

    @abstractmethod
    def among(self, column: str, values: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield conditions, with their parameters, that together find the rows with these values."""

    @abstractmethod
    def exclusive(self, connection: C) -> AbstractContextManager[object]:
        """Begin a transaction while nobody else writes; it is durable when the block has ended."""

    @abstractmethod
    def refusals(self, done: str) -> AbstractContextManager[None]:
        """Raise the database's errors as refusals; `done` says what could not be done to the log."""

    def source(self, index: str) -> str:
        """Return the table of records, read by this index where the database would not choose it."""
        return f"{self.prefix}log"

    def overwriting(self, connection: C) -> AbstractContextManager[None]:
        """Overwrite the records that the block deletes."""
        return nullcontext()

    def move_end(self, connection: C, position: int, at: int) -> None:
        """Store the position and time of the last record, if the database keeps them in a row of their own."""

    def create_missing(self, connection: C, existing: set[str]) -> None:
        """Create the tables and indexes that are missing: earlier logs lack `counters` and `few_by_position`.

        The indexes `rare` and `rare_position` hold control records; existing logs have them under these names.
        """
        log, blob = f"{self.prefix}log", self.bytes_type
        log_columns = f"""
            position {self.position_type} PRIMARY KEY, at bigint NOT NULL, kind smallint NOT NULL, model text NOT NULL,
            impression {blob}, body {blob} NOT NULL"""
        schema = {
            "log": f"TABLE {log} ({log_columns})",
            "by_impression": f"INDEX {self.prefix}by_impression ON {log} (impression) WHERE impression IS NOT NULL",
            "rare": f"INDEX {self.prefix}rare ON {log} (model, kind, position) WHERE kind NOT IN {TRAFFIC_KINDS}",
            "rare_position": f"INDEX {self.prefix}rare_position ON {log} (position) WHERE kind NOT IN {TRAFFIC_KINDS}",
            "few_by_position": f"""INDEX {self.prefix}few_by_position ON {log} (position)
                WHERE kind NOT IN {ROUTINE_KINDS}""",
            "blobs": f"TABLE {self.prefix}blobs (name text PRIMARY KEY, content {blob} NOT NULL)",
            "counters": f"TABLE {self.prefix}counters ({counters.COLUMNS}){self.by_key}",
        }
        for name, what in schema.items():
            if self.prefix + name not in existing:
                self.execute(connection, f"CREATE {what}")
        if f"{self.prefix}few_position" in existing:  # it would also hold the records `Settled`
            self.execute(connection, f"DROP INDEX {self.prefix}few_position")
        if f"{self.prefix}sums" in existing:
            counters.migrate(partial(self.execute, connection), f"{self.prefix}sums", f"{self.prefix}counters")

    @contextmanager
    def borrow(self) -> Iterator[C]:
        """Lend a connection."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.connect()
        is_lost = False
        try:
            yield connection
        except self.lost:
            is_lost = True
            self._close_idle()
            raise
        finally:
            if is_lost or self._is_closed:
                connection.close()
            else:
                self._idle.append(connection)

    def _close_idle(self) -> None:
        with suppress(IndexError):  # other threads may borrow meanwhile
            while True:
                self._idle.pop().close()

    def close(self) -> None:
        """Close the idle connections; one in use is closed when it is returned."""
        self._is_closed = True
        self._close_idle()

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction[C]]:
        """Begin an exclusive write, which is durable when the block has ended."""
        with self.refusals("written"), self.borrow() as connection, self.exclusive(connection):
            transaction = SqlTransaction(self, connection)
            yield transaction
            transaction.finish()

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return all rows of a query."""
        with self.refusals("read"), self.borrow() as connection:
            return self.execute(connection, query, values).fetchall()

    def tail(self) -> int:
        """Return the last position."""
        found = self.rows(self.end)
        return int(found[0][0]) if found else 0

    def read(self, after: int = 0, up_to: int | None = None, model: str | None = None) -> Iterator[Record]:
        """Yield the records after a position, in order; page by page, so that a slow reader delays no checkpoint."""
        end = self.tail() if up_to is None else up_to
        where, values = ("", ()) if model is None else (" AND model = ?", (model,))
        query = f"SELECT {COLUMNS} FROM {self.prefix}log WHERE position > ? AND position <= ?{where}"
        while after < end:
            found = self.rows(f"{query} ORDER BY position LIMIT {PAGE}", (after, end, *values))
            if not found:
                return
            yield from map(_record, found)
            after = found[-1][0]

    def at(self, positions: Sequence[int]) -> list[Record]:
        """Return the records at these positions; deleted ones are left out."""
        return _among(self, self.rows, "position", positions)

    def about(self, impressions: Sequence[bytes]) -> list[Record]:
        """Return the records of these impressions, in order."""
        return _among(self, self.rows, "impression", impressions)

    def control_records(self, after: int = 0, kinds: Sequence[type] | None = None) -> list[Record]:
        """Return the records after a position that are no impressions and no feedback."""
        numbers = None if kinds is None else [KINDS[kind] for kind in kinds]
        are_few = numbers is not None and not set(numbers) & set(ROUTINE_KINDS)
        index, others = ("few_by_position", ROUTINE_KINDS) if are_few else ("rare_position", TRAFFIC_KINDS)
        asked = "" if numbers is None else f" AND kind IN ({', '.join(map(str, numbers))})"
        query = f"SELECT {COLUMNS} FROM {self.source(index)} WHERE position > ? AND kind NOT IN {others}{asked}"
        return [_record(row) for row in self.rows(f"{query} ORDER BY position", (after,))]

    def all_of(self, model: str, kind: type, after: int = 0) -> list[Record]:
        """Return a model's control records of one kind after a position."""
        query = f"{_of_kind(self)} AND position > ? ORDER BY position"
        return [_record(row) for row in self.rows(query, (model, KINDS[kind], after))]

    def newest(self, model: str, kind: type, n: int, up_to: int | None = None) -> list[Record]:
        """Return a model's last n control records of one kind up to a position, newest first."""
        return _newest(self, self.rows, model, kind, n, LAST_POSITION if up_to is None else up_to)

    def stored(self, name: str) -> bytes | None:
        """Return the bytes stored under this name; None: there are none."""
        found = self.rows(f"SELECT content FROM {self.prefix}blobs WHERE name = ?", (name,))
        return found[0][0] if found else None

    def names(self, prefix: str) -> list[str]:
        """Return the names of stored bytes with this prefix."""
        found = self.rows(f"SELECT name FROM {self.prefix}blobs WHERE {self.starts_with}", (prefix,))
        return sorted(name for (name,) in found)

    def counters(
        self, spans: tuple[int, ...], since: int = 0, model: str | Sequence[str] | None = None
    ) -> list[counters.PeriodCounters]:
        """Return the counters of periods of these lengths."""
        table = f"{self.prefix}counters"
        if model is None:
            return counters.read(self.rows, table, spans, since)
        names = [model] if isinstance(model, str) else model
        if not names:
            return []
        found = (counters.read(self.rows, table, spans, since, *some) for some in self.among("model", names))
        return sorted(row for rows in found for row in rows)


class SqlTransaction(Generic[C]):
    """A transaction that caches the records it has appended and read: nobody else writes meanwhile.

    Every statement costs a wait for the interpreter's lock or for the network, so one statement serves many records.
    """

    def __init__(self, log: SqlLog[C], connection: C) -> None:
        self.counters = counters.PendingCounters()
        self._log, self._connection = log, connection
        end: tuple[int, int] = self._execute(log.end_for_update).fetchone() or (0, 0)
        self.position = end[0]
        self.at = max(end[1], time.time_ns() // 1_000_000)  # times never go back, even if the clock does
        self._rows: list[tuple[Any, ...]] = []  # appended, not yet sent
        self._about: dict[bytes, list[Record]] = {}
        self._newest: dict[tuple[str, type], Record | None] = {}

    def _execute(self, query: str, values: tuple[Any, ...] = ()) -> Cursor:
        return self._log.execute(self._connection, query, values)

    def append(self, model: str, entry: Entry, impression: bytes | None = None) -> int:
        """Add an entry at the end and return its position."""
        self.position += 1
        kind = KINDS[type(entry)]
        self._rows.append((self.position, self.at, kind, model, impression, encoded(entry)))
        if impression is not None and impression in self._about:
            self._about[impression].append(Record(self.position, self.at, model, impression, entry))
        if kind not in TRAFFIC_KINDS:
            self._newest[model, type(entry)] = Record(self.position, self.at, model, impression, entry)
        return self.position

    def prefetch(self, impressions: Sequence[bytes]) -> None:
        """Read the records of these impressions in one query, for later calls of `about`."""
        self._flush()
        self._about.update({each: [] for each in impressions})
        for found in _among(self._log, self._execute, "impression", list(dict.fromkeys(impressions))):
            assert found.impression is not None
            self._about[found.impression].append(found)

    def about(self, impression: bytes) -> list[Record]:
        """Return the records of one impression."""
        if impression not in self._about:
            self.prefetch([impression])
        return list(self._about[impression])

    def newest(self, model: str, kind: type) -> Record | None:
        """Return the last control record of this kind."""
        if (model, kind) not in self._newest:
            found = _newest(self._log, self._execute, model, kind, 1, LAST_POSITION)
            self._newest[model, kind] = found[0] if found else None
        return self._newest[model, kind]

    def find_model(self, model: str) -> CurrentModel | None:
        """Return the model's spec and generation; None: there is no such model."""
        changed, deleted = self.newest(model, Changed), self.newest(model, Deleted)
        if changed is None or (deleted is not None and deleted.position > changed.position):
            return None
        assert isinstance(changed.entry, Changed)
        return CurrentModel(changed.entry.spec, changed.entry.generation or changed.position)

    def require_model(self, model: str) -> CurrentModel:
        """Return the model's spec and generation; refuse a model that does not exist, or was deleted."""
        found = self.find_model(model)
        if found is None:
            raise NotKnown(f"there is no model {model!r}", f"create it: PUT /v1/models/{model}")
        return found

    def cut(self, positions: Sequence[int], impressions: Sequence[bytes]) -> int:
        """Delete records; return how many."""
        self._flush()
        self._about.clear()
        self._newest.clear()
        log, n = self._log, 0
        with log.overwriting(self._connection):
            for column, values in (("position", positions), ("impression", impressions)):
                for where, some in log.among(column, values):
                    n += self._execute(f"DELETE FROM {log.prefix}log WHERE {where}", some).rowcount
        return n

    def _flush(self) -> None:
        """Insert the appended records."""
        rows, self._rows = self._rows, []
        if rows:
            self._log.insert(self._connection, rows)

    def finish(self) -> None:
        """Write the remaining records and the counters."""
        self._flush()
        self.counters.write(self._execute, f"{self._log.prefix}counters", self.at)
        self._log.move_end(self._connection, self.position, self.at)

    def store(self, name: str, content: bytes) -> None:
        """Store bytes under a name."""
        insert = f"INSERT INTO {self._log.prefix}blobs (name, content) VALUES (?, ?)"
        self._execute(f"{insert} ON CONFLICT (name) DO UPDATE SET content = EXCLUDED.content", (name, content))

    def stored(self, name: str) -> bytes | None:
        """Return the bytes stored under this name, also by this transaction; None: there are none."""
        row = self._execute(f"SELECT content FROM {self._log.prefix}blobs WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def remove(self, name: str) -> None:
        """Delete the bytes of this name."""
        self._execute(f"DELETE FROM {self._log.prefix}blobs WHERE name = ?", (name,))

    def remove_all(self, prefix: str) -> None:
        """Delete the bytes of all names with this prefix."""
        self._execute(f"DELETE FROM {self._log.prefix}blobs WHERE {self._log.starts_with}", (prefix,))

    def remember(self, name: str, value: int) -> None:
        """Store a number under a name."""
        insert = f"INSERT INTO {self._log.numbers} (name, value) VALUES (?, ?)"
        self._execute(f"{insert} ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value", (name, value))

    def remembered(self, name: str) -> int:
        """Return the number of this name; 0: there is none."""
        row = self._execute(f"SELECT value FROM {self._log.numbers} WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0


def _record(row: Sequence[Any]) -> Record:
    """Return the record of a row of COLUMNS."""
    return Record(row[0], row[1], row[2], row[3], decoded(row[4]))


def _among(log: SqlLog[C], execute: Execute, column: str, values: Sequence[Any]) -> list[Record]:
    """Return the records with one of these values in a column, in order."""
    query = f"SELECT {COLUMNS} FROM {log.prefix}log WHERE"
    found = [_record(row) for where, some in log.among(column, values) for row in execute(f"{query} {where}", some)]
    return sorted(found, key=lambda record: record.position)


def _of_kind(log: SqlLog[C]) -> str:
    """Return the query for a model's control records of one kind; its first condition selects the index."""
    return f"SELECT {COLUMNS} FROM {log.prefix}log WHERE kind NOT IN {TRAFFIC_KINDS} AND model = ? AND kind = ?"


def _newest(log: SqlLog[C], execute: Execute, model: str, kind: type, n: int, up_to: int) -> list[Record]:
    query = f"{_of_kind(log)} AND position <= ? ORDER BY position DESC LIMIT ?"
    return [_record(row) for row in execute(query, (model, KINDS[kind], up_to, n))]
