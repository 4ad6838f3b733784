"""The log in one SQLite file. Every commit is flushed to disk; one writer at a time, readers never wait."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

from perturank.errors import BadInput
from perturank.service.log.records import SECRET_BYTES
from perturank.service.log.refusals import LogFull, NotReady
from perturank.service.log.sql import SqlLog

FORMAT = 1
SECONDS_TO_WAIT = 30.0  # for another process that writes
SECONDS_TO_TRUNCATE, SECONDS_BETWEEN_TRIES = 30.0, 0.01
SECONDS_TO_LEAD, TRIES_TO_LEAD = 0.1, 10
SQLITE = "sqlite:///"  # how addresses of such logs begin
INCREMENTAL = 2  # SQLite's number for giving free pages back when asked to
MOST_VALUES = 64  # to a statement: SQLite counts its variables
WAL_BYTES = 16 << 20  # to which SQLite truncates the -wal file after a long read has let it grow
PAGES_AT_ONCE = 500  # returned to the disk while others wait
META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID"
# Where the log ends. Its last record may have been deleted, and no position may be used twice.
LAST = "SELECT position, at FROM log WHERE position = (SELECT max(position) FROM log)"
KEPT = f"SELECT value, coalesce((SELECT at FROM ({LAST})), 0) FROM meta WHERE name = 'end'"
END = f"SELECT position, at FROM ({LAST} UNION ALL {KEPT}) ORDER BY position DESC LIMIT 1"
KEEP_END = "INSERT OR REPLACE INTO meta SELECT 'end', max(position) FROM log WHERE EXISTS (SELECT 1 FROM log)"


class SqliteLog(SqlLog[sqlite3.Connection]):
    """A log in a file; may be opened by several processes."""

    prefix, numbers = "", "meta"
    position_type, bytes_type, by_key = "INTEGER", "BLOB", " WITHOUT ROWID"
    end = end_for_update = END
    starts_with = "name >= ?1 AND name < ?1 || char(0x10ffff)"  # a range, which the index finds

    def __init__(self, path: Path, *, create: bool = True) -> None:
        super().__init__()
        if not create and not path.exists():
            raise BadInput(f"there is no log {path}", "check the path, or start one with `perturank serve`")
        self.path = path
        self._lead: IO[str] | None = None
        _drop_copy(path)
        try:
            path.touch(0o600)  # it holds clicks, and the key that signs ids
            with self.borrow() as connection:
                with self.exclusive(connection):
                    self._create(connection)
                meta: dict[str, Any] = dict(connection.execute("SELECT name, value FROM meta"))
        except (OSError, sqlite3.DatabaseError) as error:
            raise BadInput(f"{path} cannot be opened as a log ({error})", "name another file, or a backup") from None
        if meta.get("format") != FORMAT:
            raise BadInput(f"{path} has format {meta.get('format')}", f"this version reads format {FORMAT}")
        self.secret = meta["secret"]

    def _create(self, connection: sqlite3.Connection) -> None:
        made = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if "meta" not in made:
            connection.execute(META)
            rows = [("format", FORMAT), ("secret", os.urandom(SECRET_BYTES))]
            connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        self.create_missing(connection, made)

    @property
    def url(self) -> str:
        """The address under which any process of this machine opens it."""
        return f"{SQLITE}{self.path.absolute()}"

    def connect(self) -> sqlite3.Connection:
        """Return a new connection; SQLite itself moves the -wal file into the log, in the commit that fills it."""
        connection = sqlite3.connect(self.path, timeout=SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False)
        if connection.execute("PRAGMA page_count").fetchone() == (0,):  # on any other file the pragma has no effect
            connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        return connection

    def execute(self, connection: sqlite3.Connection, query: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run a statement."""
        return connection.execute(query, values)

    def insert(self, connection: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
        """Write rows of the log."""
        for some in _pieces(rows):
            values = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(some))
            connection.execute(f"INSERT INTO log VALUES {values}", [each for row in some for each in row])

    def among(self, column: str, values: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield conditions of at most MOST_VALUES parameters."""
        for some in _pieces(values):
            yield f"{column} IN ({', '.join('?' * len(some))})", tuple(some)

    @contextmanager
    def exclusive(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Begin a transaction, which other connections wait for."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite ends it by itself on a full disk
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def refusals(self, done: str) -> Iterator[None]:
        """Raise SQLite's errors as refusals; a faulty statement is our own fault, and stays what it is."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            kind = code & 0xFF  # the rest says more exactly what it was
            if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise NotReady(f"the log is damaged ({error})", "put a backup in its place") from None
            if kind == sqlite3.SQLITE_ERROR or not isinstance(error, sqlite3.OperationalError):
                raise
            if kind == sqlite3.SQLITE_BUSY:
                raise NotReady("another process has been writing for long", "send it again in a moment") from None
            if kind == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:  # of the file beside the -wal file
                raise LogFull(f"the log cannot be {done} ({error})", "make room and send it again") from None
            raise NotReady(f"the log cannot be {done} ({error})", "check its file and the disk") from None

    def source(self, index: str) -> str:
        """Return the table with the index that it is to be read by: SQLite would walk through all impressions."""
        return f"log INDEXED BY {index}"

    @contextmanager
    def overwriting(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Overwrite the records that the block deletes with zeros."""
        connection.execute(KEEP_END)
        connection.execute("PRAGMA secure_delete = ON")
        try:
            yield
        finally:
            connection.execute("PRAGMA secure_delete = OFF")

    def back_up(self, target: Path) -> None:
        """Copy the log of this moment to a new file, which only its owner can read; it appears whole or not at all."""
        if target.exists():
            raise BadInput(f"{target} is there already", "name a new file")
        try:
            with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as beside:
                try:
                    with self.borrow() as connection, closing(sqlite3.connect(beside.name)) as copy:
                        connection.backup(copy)
                    os.fsync(beside.fileno())
                    os.replace(beside.name, target)  # it has the permissions of a temporary file: 0600
                except BaseException:
                    os.unlink(beside.name)
                    raise
        except (OSError, sqlite3.DatabaseError) as error:
            raise BadInput(f"cannot copy the log to {target} ({error})", "name a file in a folder with room") from None

    def give_back(self) -> bool:
        """Return some free pages to the disk; return whether there are more."""
        with self.refusals("made smaller"), self.borrow() as connection:
            (n_free,) = connection.execute("PRAGMA freelist_count").fetchone()
            # `execute` would stop after the first page.
            connection.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
            (n_left,) = connection.execute("PRAGMA freelist_count").fetchone()
            if 0 < n_left < n_free:
                return True
            self._truncate_wal()
        return False

    def _truncate_wal(self) -> None:
        """Empty the -wal file, which also has old pages, as soon as nobody reads it."""
        end = time.monotonic() + SECONDS_TO_TRUNCATE
        with closing(self.connect()) as connection:
            connection.execute("PRAGMA busy_timeout = 0")  # SQLite would wait for readers, and writers for SQLite
            while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] and time.monotonic() < end:
                time.sleep(SECONDS_BETWEEN_TRIES)

    def damage(self) -> list[str]:
        """Return what SQLite finds wrong with the file."""
        return [said for (said,) in self.rows("PRAGMA integrity_check") if said != "ok"]

    def is_led(self) -> bool:
        """Return whether the lock file is held."""
        if self._lead is not None:
            return True
        with self._lock_file() as file:
            return not _try_lock(file, fcntl.LOCK_SH)

    def try_to_lead(self) -> bool:
        """Return whether this process holds the lock file beside the log; it is free when the holder is gone."""
        if self._lead is not None:
            return True
        file = self._lock_file()
        for _ in range(TRIES_TO_LEAD):  # `is_led` of another process also holds it, for a moment
            if _try_lock(file, fcntl.LOCK_EX):
                self._lead = file
                return True
            time.sleep(SECONDS_TO_LEAD / TRIES_TO_LEAD)
        file.close()
        return False

    def _lock_file(self) -> IO[str]:
        """Open the file of the learner's lock: closing the log itself would end SQLite's own locks on it."""
        file = _beside(self.path, "-learner")
        file.touch(0o600)
        return file.open("a")

    def room(self) -> int:
        """Return the bytes left on the file's disk."""
        return shutil.disk_usage(self.path.parent).free

    def size(self) -> int:
        """Return the bytes of the file and of its -wal file."""
        return _n_bytes(self.path) + _n_bytes(_beside(self.path, "-wal"))

    def close(self) -> None:
        """Close the connections, and let another learner lead."""
        if self._lead is not None:
            self._lead.close()
            self._lead = None
        super().close()


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _n_bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _drop_copy(path: Path) -> None:
    """Remove the copy of the -wal file that earlier versions made for each checkpoint, and left behind in a crash.

    SQLite needs no more than its own -wal file, unless somebody has shortened that. The copy holds clicks.
    """
    copy, wal = _beside(path, "-merging"), _beside(path, "-wal")
    if _n_bytes(copy) > _n_bytes(wal):
        raise BadInput(
            f"{wal.name} is shorter than {copy.name}, the copy that an earlier version of perturank made of it",
            f"open the log with that version, which repairs it, or delete {copy.name} if the log is a restored backup",
        )
    for file in (copy, _beside(path, "-merging-new")):
        file.unlink(missing_ok=True)


def _try_lock(file: IO[str], how: int) -> bool:
    """Lock the file, unless somebody else holds it; return whether it is locked now."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pieces(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the items in pieces of 64, 32, 16, …: Python keeps every statement, and what was bound to it last."""
    start = 0
    while left := len(items) - start:
        n = min(MOST_VALUES, 1 << (left.bit_length() - 1))
        yield items[start : start + n]
        start += n
