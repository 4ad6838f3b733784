"""The log in one SQLite file. Every commit is flushed to disk; one writer at a time, readers never wait."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from perturank.errors import BadInput
from perturank.service.entries import FREQUENT, KINDS, REGULAR, Record
from perturank.service.log import locking, merged, sums
from perturank.service.log.checkpointing import Checkpointer
from perturank.service.log.connections import Connections
from perturank.service.log.locking import Lock
from perturank.service.log.merging import reading
from perturank.service.log.rows import COLUMNS, PAGE, among, are_few, paged, record
from perturank.service.log.writing import Writing
from perturank.service.refusals import LogFull, NotReady
from perturank.service.sealing import SECRET_BYTES

T = TypeVar("T")
FORMAT = 1
SECONDS_TO_WAIT = 30.0  # for another process that writes
SECONDS_TO_LEAD, TRIES_TO_LEAD = 0.1, 10
SQLITE = "sqlite:///"  # how addresses of such logs begin
INCREMENTAL = 2  # SQLite's number for giving free pages back when asked to
ROWS_AT_ONCE = 64  # to a statement: SQLite counts its variables
LAST = "\U0010ffff"  # no name goes on with it
PAGES_AT_ONCE = 500  # given back while others wait

SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE log (
    position INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind INTEGER NOT NULL, model TEXT NOT NULL,
    impression BLOB, body BLOB NOT NULL
);
CREATE INDEX by_impression ON log (impression) WHERE impression IS NOT NULL;
CREATE INDEX rare ON log (model, kind, position) WHERE kind NOT IN {FREQUENT};
CREATE INDEX rare_position ON log (position) WHERE kind NOT IN {FREQUENT};
CREATE TABLE blobs (name TEXT PRIMARY KEY, content BLOB NOT NULL);
"""
ADDED = {  # since the first logs
    "counters": f"CREATE TABLE counters ({sums.COLUMNS}) WITHOUT ROWID",
    "few_position": f"CREATE INDEX few_position ON log (position) WHERE kind NOT IN {REGULAR}",
}


class SqliteLog:
    """A log in a file; may be opened by several processes."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        if not create and not path.exists():
            raise BadInput(f"there is no log {path}", "check the path, or start one with `perturank serve`")
        self.path = path
        self._lead: Lock | None = None
        self._connections = Connections(partial(_connected, path))
        self._connection = self._connections.mine
        self._checkpointer = Checkpointer(partial(_connected, path), path)
        try:
            self._open_here = _mended(path)
            path.touch(0o600)  # it holds clicks, and the key of the seals
            self._prepare()
            self._reader = reading(path)  # closes last
        except (OSError, sqlite3.DatabaseError) as error:
            raise BadInput(f"{path} cannot be opened as a log ({error})", "name another file, or a backup") from None
        self.secret: bytes = self._meta("secret")

    @property
    def url(self) -> str:
        """The address under which any process of this machine opens it."""
        return f"{SQLITE}{self.path.absolute()}"

    def _prepare(self) -> None:
        with _exclusive(self._connection()) as connection:
            made = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if "log" not in made:
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
                rows = [("format", FORMAT), ("secret", os.urandom(SECRET_BYTES))]
                connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
            for name in ADDED.keys() - made:
                connection.execute(ADDED[name])
            if "sums" in made:
                sums.migrate(connection.execute, "sums", "counters")
            if not {"log", *ADDED} <= made:
                merged.count(connection)
        if self._meta("format") != FORMAT:
            raise BadInput(f"{self.path} has format {self._meta('format')}", f"this version reads format {FORMAT}")

    def _meta(self, name: str) -> Any:
        row = self._one("SELECT value FROM meta WHERE name = ?", (name,))
        return row and row[0]

    def _all(self, query: str, arguments: tuple[Any, ...] = ()) -> list[Any]:
        with _refusing("read"):
            return self._connection().execute(query, arguments).fetchall()

    def _one(self, query: str, arguments: tuple[Any, ...] = ()) -> Any:
        rows = self._all(query, arguments)
        return rows[0] if rows else None

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        """Begin to write; durable when the block has ended."""
        self._checkpointer.let_pass()
        with _refusing("written"), _exclusive(self._connection()) as connection:
            writing, n_before = SqliteTransaction(connection), connection.total_changes
            yield writing
            writing.finish()
            n_rows = connection.total_changes - n_before
            if n_rows:
                merged.count(connection)
        self._checkpointer.wrote(n_rows, writing.n_bytes)

    def tail(self) -> int:
        """Return the last position."""
        return self._one("SELECT max(position) FROM log")[0] or 0

    def read(self, after: int = 0, through: int | None = None, model: str | None = None) -> Iterator[Record]:
        """Yield the records behind a position, in order."""
        end = self.tail() if through is None else through
        query = f"SELECT {COLUMNS} FROM log WHERE position > ? AND position <= ?"
        query += " AND model = ?" if model is not None else ""

        def fetch(after: int) -> list[Any]:
            arguments = (after, end) if model is None else (after, end, model)
            return self._all(f"{query} ORDER BY position LIMIT {PAGE}", arguments)

        return paged(fetch, after, end)

    def at(self, positions: Sequence[int]) -> list[Record]:
        """Return the records at these positions, as far as they are there."""
        found: list[Record] = []
        for start in range(0, len(positions), PAGE):
            some = positions[start : start + PAGE]
            query = f"SELECT {COLUMNS} FROM log WHERE position IN ({', '.join('?' * len(some))})"
            found += [record(row) for row in self._all(query, tuple(some))]
        return found

    def about(self, impressions: Sequence[bytes]) -> list[Record]:
        """Return the records of these impressions, in order."""
        found: list[Record] = []
        for some in _pieces(list(impressions)):
            query = f"SELECT {COLUMNS} FROM log WHERE impression IN ({', '.join('?' * len(some))})"
            found += [record(row) for row in self._all(query, tuple(some))]
        return sorted(found, key=lambda each: each.position)

    def rare(self, after: int = 0, kinds: Sequence[type] | None = None) -> list[Record]:
        """Return all records behind a position but impressions and feedback."""
        # Without the hint SQLite walks through all impressions.
        index, others = ("few_position", REGULAR) if are_few(kinds) else ("rare_position", FREQUENT)
        where = f"position > ? AND kind NOT IN {others}{among(kinds)}"
        query = f"SELECT {COLUMNS} FROM log INDEXED BY {index} WHERE {where} ORDER BY position"
        return [record(row) for row in self._all(query, (after,))]

    def all_of(self, model: str, kind: type, after: int = 0) -> list[Record]:
        """Return a model's records of one kind behind a position."""
        query = f"SELECT {COLUMNS} FROM log WHERE kind NOT IN {FREQUENT} AND model = ? AND kind = ? AND position > ?"
        return [record(row) for row in self._all(f"{query} ORDER BY position", (model, KINDS[kind], after))]

    def newest(self, model: str, kind: type, n: int, through: int | None = None) -> list[Record]:
        """Return a model's last n records of one kind up to a position, newest first."""
        query = f"SELECT {COLUMNS} FROM log WHERE kind NOT IN {FREQUENT} AND model = ? AND kind = ? AND position <= ?"
        end = self.tail() if through is None else through
        return [
            record(row) for row in self._all(f"{query} ORDER BY position DESC LIMIT ?", (model, KINDS[kind], end, n))
        ]

    def stored(self, name: str) -> bytes | None:
        """Return the bytes kept under this name."""
        row = self._one("SELECT content FROM blobs WHERE name = ?", (name,))
        return row and row[0]

    def names(self, prefix: str) -> list[str]:
        """Return the names of stored bytes that begin so."""
        query = "SELECT name FROM blobs WHERE name >= ? AND name < ? ORDER BY name"  # which the index finds
        return [row[0] for row in self._all(query, (prefix, prefix + LAST))]

    def sums(self, spans: tuple[int, ...], since: int = 0, model: str | None = None) -> list[sums.Sums]:
        """Return the running sums over these spans."""
        return sums.read(self._all, "counters", spans, since, model)

    def is_led(self) -> bool:
        """Return whether the lock file is held."""
        if self._lead is not None:
            return True
        with closing(locking.leading(self.path)) as lock:
            return not lock.is_shared()

    def give_back(self) -> bool:
        """Give some free pages back to the disk; return whether there are more."""
        with _refusing("made smaller"):
            connection = self._connection()
            with _exclusive(connection):
                (n_free,) = connection.execute("PRAGMA freelist_count").fetchone()
                for _ in range(min(n_free, PAGES_AT_ONCE)):
                    connection.execute("PRAGMA incremental_vacuum(1)")  # of more, Python would take one step alone
                if n_free:
                    merged.count(connection)
            (n_left,) = connection.execute("PRAGMA freelist_count").fetchone()
            if 0 < n_left < n_free:
                return True
            self._checkpointer.cut()  # old pages are in the -wal file too
        return False

    def try_to_lead(self) -> bool:
        """Return whether this process holds the lock file beside the log; it is free when the holder is gone."""
        if self._lead is not None:
            return True
        lock = locking.leading(self.path)
        for _ in range(TRIES_TO_LEAD):  # whoever asks `is_led` holds it too, for a moment
            if lock.is_mine():
                self._lead = lock
                return True
            time.sleep(SECONDS_TO_LEAD / TRIES_TO_LEAD)
        lock.close()
        return False

    def room(self) -> int:
        """Return the bytes left on the file's disk."""
        return shutil.disk_usage(self.path.parent).free

    def size(self) -> int:
        """Return the bytes of the file and of what is not yet merged into it."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close the connections, and let another learner lead."""
        if self._lead is not None:
            self._lead.close()
            self._lead = None
        self._checkpointer.close()
        self._connections.close()
        self._reader.close()
        if not self._open_here.is_closed and self._open_here.is_mine():
            self._checkpointer.finish()
        self._open_here.close()


class SqliteTransaction(Writing):
    """Writes between BEGIN and COMMIT."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.n_bytes = 0  # written beside the rows' small parts
        row = connection.execute("SELECT position, at FROM log ORDER BY position DESC LIMIT 1").fetchone()
        super().__init__(*(row or (0, 0)))

    def finish(self) -> None:
        """Write what is left, and bring the sums up to date."""
        self.flush()
        self.tally.write(self._connection.execute, "counters", self._end.at)

    def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        self.n_bytes += sum(len(body) for *_, body in rows)
        for some in _pieces(rows):
            values = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(some))
            self._connection.execute(f"INSERT INTO log VALUES {values}", [each for row in some for each in row])

    def _read_about(self, impressions: list[bytes]) -> Iterator[Any]:
        for some in _pieces(impressions):
            names = ", ".join("?" * len(some))
            query = f"SELECT {COLUMNS} FROM log WHERE impression IN ({names}) ORDER BY position"
            yield from self._connection.execute(query, some)

    def _read_newest(self, model: str, kind: type) -> Any:
        query = f"SELECT {COLUMNS} FROM log WHERE kind NOT IN {FREQUENT} AND model = ? AND kind = ?"
        return self._connection.execute(f"{query} ORDER BY position DESC LIMIT 1", (model, KINDS[kind])).fetchone()

    def _delete(self, positions: Sequence[int], impressions: Sequence[bytes]) -> int:
        """Put zeros in their place."""
        self._connection.execute("PRAGMA secure_delete = ON")
        try:
            n = self._connection.executemany("DELETE FROM log WHERE position = ?", [(p,) for p in positions]).rowcount
            gone = self._connection.executemany("DELETE FROM log WHERE impression = ?", [(i,) for i in impressions])
            return max(n, 0) + max(gone.rowcount, 0)
        finally:
            self._connection.execute("PRAGMA secure_delete = OFF")

    def store(self, name: str, content: bytes) -> None:
        """Keep bytes under a name."""
        self.n_bytes += len(content)
        self._connection.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (name, content))

    def remove(self, name: str) -> None:
        """Forget the bytes of this name."""
        self._connection.execute("DELETE FROM blobs WHERE name = ?", (name,))

    def remove_all(self, prefix: str) -> None:
        """Forget the bytes of all names that begin so."""
        self._connection.execute("DELETE FROM blobs WHERE substr(name, 1, ?) = ?", (len(prefix), prefix))

    def remember(self, name: str, value: int) -> None:
        """Keep a number under a name."""
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def remembered(self, name: str) -> int:
        """Return the number of this name; 0 where there is none."""
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return row[0] if row else 0


def _mended(path: Path) -> Lock:
    """Say that the log is open here; who comes first mends it before."""
    with ExitStack() as undone:
        lock, end = undone.enter_context(closing(locking.open_here(path))), time.monotonic() + SECONDS_TO_WAIT
        while time.monotonic() < end:
            if lock.is_mine():
                merged.mend(path)
            if lock.is_shared():
                undone.pop_all()
                return lock
            time.sleep(SECONDS_TO_LEAD)
    raise BadInput(f"another process has been opening or closing {path} for long", "see whether it is stopped")


def _pieces(items: list[T]) -> Iterator[list[T]]:
    """Yield the items in pieces of 64, 32, 16, …: Python keeps every statement, and what was bound to it last."""
    while items:
        n = min(ROWS_AT_ONCE, 1 << (len(items).bit_length() - 1))
        yield items[:n]
        items = items[n:]


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False)
    if connection.execute("PRAGMA page_count").fetchone() == (0,):  # any other it would write, to no avail
        connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # no commit merges: see `checkpointing`
    return connection


@contextmanager
def _refusing(done: str) -> Iterator[None]:
    """Say what an error of SQLite means to whoever wanted this to be done; a faulty statement is our own fault."""
    try:
        yield
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        kind = code & 0xFF  # the rest says more exactly what it was
        if kind == sqlite3.SQLITE_ERROR:
            raise
        if kind == sqlite3.SQLITE_BUSY:
            raise NotReady("another process has been writing for long", "send it again in a moment") from None
        if kind == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:  # of the file beside the -wal file
            raise LogFull(f"the log cannot be {done} ({error})", "make room and send it again") from None
        raise NotReady(f"the log cannot be {done} ({error})", "check its file and the disk") from None


@contextmanager
def _exclusive(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself on a full disk
            connection.execute("ROLLBACK")
        raise
