"""The log in PostgreSQL, for several machines: the same order, the same meaning.

A sequence would number rows in the order of their inserts, which is not that of their commits. Here
the last position stands in one row, locked from the begin of a transaction to its end.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from perturank.errors import BadInput
from perturank.service.entries import FREQUENT, KINDS, REGULAR, Record
from perturank.service.log import sums
from perturank.service.log.connections import Connections
from perturank.service.log.rows import COLUMNS, PAGE, among, are_few, paged, record
from perturank.service.log.writing import Writing
from perturank.service.refusals import LogFull, NotReady
from perturank.service.sealing import SECRET_BYTES
from perturank.service.settings import without_password

logger = logging.getLogger("perturank.service")
FORMAT = 1
QUOTED = re.compile(r"""(["'])(.*?)\1""")
TABLE = "perturank_counters"
SECONDS_FOR_ROOM = 0.01  # to wait for what is under way
STARTING = 7_073_517_275  # the number of the advisory lock of those that make the tables; any would do
SCHEMA = f"""
CREATE TABLE perturank_head (one boolean PRIMARY KEY DEFAULT true CHECK (one), position bigint, at bigint,
                             format integer, secret bytea);
CREATE TABLE perturank_numbers (name text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE perturank_log (
    position bigint PRIMARY KEY, at bigint NOT NULL, kind smallint NOT NULL, model text NOT NULL,
    impression bytea, body bytea NOT NULL
);
ALTER TABLE perturank_log ALTER COLUMN body SET STORAGE EXTERNAL; -- it is deflated already
CREATE INDEX perturank_by_impression ON perturank_log (impression) WHERE impression IS NOT NULL;
CREATE INDEX perturank_rare ON perturank_log (model, kind, position) WHERE kind NOT IN {FREQUENT};
CREATE INDEX perturank_rare_position ON perturank_log (position) WHERE kind NOT IN {FREQUENT};
CREATE TABLE perturank_blobs (name text PRIMARY KEY, content bytea NOT NULL);
"""
SUMS = f"CREATE TABLE IF NOT EXISTS {TABLE} ({sums.COLUMNS})"
FEW = f"CREATE INDEX perturank_few_position ON perturank_log (position) WHERE kind NOT IN {REGULAR}"
# A machine that vanishes without a word, and a process that is stopped, must not hold the lock for long.
SESSION = """
SET synchronous_commit = on; SET tcp_keepalives_idle = 3; SET tcp_keepalives_interval = 1;
SET tcp_keepalives_count = 3; SET tcp_user_timeout = 5000; SET idle_in_transaction_session_timeout = 5000
"""
# Nor may a database that vanishes hold up who asks. Of several addresses, the one that can be written is meant.
PATIENCE: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
    "target_session_attrs": "read-write",
}
# The last is said by a database that became a copy of another, and of a transaction that took too long.
AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)


class PostgresLog:
    """A log in a database."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.url = url
        self._connections = Connections(partial(_connected, url), lambda connection: connection.closed)
        self._connection = self._connections.mine
        self._lead: psycopg.Connection[Any] | None = None
        self._vacuum: threading.Thread | None = None
        self._prepare(create)
        held, self.secret = self._one("SELECT format, secret FROM perturank_head")
        self._lock = int.from_bytes(hashlib.blake2b(self.secret, digest_size=7).digest(), "big")
        if held != FORMAT:
            raise BadInput(f"the log has format {held}", f"this version reads format {FORMAT}")

    def _prepare(self, create: bool) -> None:
        try:
            self._make(self._connection(), create)
        except NotReady as error:
            why = _reason(error.__cause__, self.url)
            raise BadInput(f"the database cannot be reached: {why}", "check that it runs and its address") from None
        except psycopg.Error as error:
            raise BadInput(f"the database cannot hold the log: {_reason(error, self.url)}") from None

    def _make(self, connection: psycopg.Connection[Any], create: bool) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (STARTING,))  # two that start at once
            if connection.execute("SELECT to_regclass('perturank_head')").fetchone() != (None,):
                connection.execute(SUMS)
                if connection.execute("SELECT to_regclass('perturank_sums')").fetchone() != (None,):
                    sums.migrate(PostgresTransaction(connection).execute, "perturank_sums", TABLE)
                if connection.execute("SELECT to_regclass('perturank_few_position')").fetchone() == (None,):
                    connection.execute(FEW)  # asked for first: it would lock the table in any case
                return
            if not create:
                raise BadInput("the database holds no log", "start one with `perturank serve`")
            connection.execute(SCHEMA)
            connection.execute(SUMS)
            connection.execute(FEW)
            row = (0, 0, FORMAT, os.urandom(SECRET_BYTES))
            connection.execute("INSERT INTO perturank_head (position, at, format, secret) VALUES (%s, %s, %s, %s)", row)

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Begin to write; durable when the block has ended."""
        try:
            connection = self._connection()
            with connection.transaction():
                writing = PostgresTransaction(connection)
                yield writing
                writing.finish()
        except (errors.DiskFull, errors.InsufficientResources) as error:
            raise LogFull(f"the log cannot be written ({error})", "make room and send it again") from None
        except AWAY:
            self._connections.drop()
            raise NotReady("the database went away", "send it again in a moment") from None

    def _all(self, query: str, arguments: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._connection().execute(query, arguments).fetchall()
        except AWAY:
            raise NotReady("the database went away", "send it again in a moment") from None

    def _one(self, query: str, arguments: tuple[Any, ...] = ()) -> Any:
        rows = self._all(query, arguments)
        return rows[0] if rows else None

    def tail(self) -> int:
        """Return the last position."""
        return int(self._one("SELECT position FROM perturank_head")[0])

    def read(self, after: int = 0, through: int | None = None, model: str | None = None) -> Iterator[Record]:
        """Yield the records behind a position, in order."""
        end = self.tail() if through is None else through
        query = f"SELECT {COLUMNS} FROM perturank_log WHERE position > %s AND position <= %s"
        query += " AND model = %s" if model is not None else ""

        def fetch(after: int) -> list[Any]:
            arguments = (after, end) if model is None else (after, end, model)
            return self._all(f"{query} ORDER BY position LIMIT {PAGE}", arguments)

        return paged(fetch, after, end)

    def at(self, positions: Sequence[int]) -> list[Record]:
        """Return the records at these positions, as far as they are there."""
        query = f"SELECT {COLUMNS} FROM perturank_log WHERE position = ANY(%s)"
        return [record(row) for row in self._all(query, (list(positions),))]

    def about(self, impressions: Sequence[bytes]) -> list[Record]:
        """Return the records of these impressions, in order."""
        query = f"SELECT {COLUMNS} FROM perturank_log WHERE impression = ANY(%s) ORDER BY position"
        return [record(row) for row in self._all(query, (list(impressions),))]

    def rare(self, after: int = 0, kinds: Sequence[type] | None = None) -> list[Record]:
        """Return all records behind a position but impressions and feedback."""
        where = f"position > %s AND kind NOT IN {REGULAR if are_few(kinds) else FREQUENT}{among(kinds)}"
        query = f"SELECT {COLUMNS} FROM perturank_log WHERE {where} ORDER BY position"
        return [record(row) for row in self._all(query, (after,))]

    def all_of(self, model: str, kind: type, after: int = 0) -> list[Record]:
        """Return a model's records of one kind behind a position."""
        where = f"kind NOT IN {FREQUENT} AND model = %s AND kind = %s AND position > %s"
        query = f"SELECT {COLUMNS} FROM perturank_log WHERE {where} ORDER BY position"
        return [record(row) for row in self._all(query, (model, KINDS[kind], after))]

    def newest(self, model: str, kind: type, n: int, through: int | None = None) -> list[Record]:
        """Return a model's last n records of one kind up to a position, newest first."""
        where = f"kind NOT IN {FREQUENT} AND model = %s AND kind = %s AND position <= %s"
        query = f"SELECT {COLUMNS} FROM perturank_log WHERE {where} ORDER BY position DESC LIMIT %s"
        end = self.tail() if through is None else through
        return [record(row) for row in self._all(query, (model, KINDS[kind], end, n))]

    def stored(self, name: str) -> bytes | None:
        """Return the bytes kept under this name."""
        row = self._one("SELECT content FROM perturank_blobs WHERE name = %s", (name,))
        return row and row[0]

    def names(self, prefix: str) -> list[str]:
        """Return the names of stored bytes that begin so."""
        query = 'SELECT name FROM perturank_blobs WHERE starts_with(name, %s) ORDER BY name COLLATE "C"'
        return [row[0] for row in self._all(query, (prefix,))]

    def give_back(self) -> bool:
        """Let new records take the room of those that are gone, in a thread of its own: of a large log that takes long.

        The database goes on with it when this process ends.
        """
        if self._vacuum is not None:
            self._vacuum.join(SECONDS_FOR_ROOM)
            if self._vacuum.is_alive():
                return True
        self._vacuum = threading.Thread(target=self._give_back, name="vacuum", daemon=True)
        self._vacuum.start()
        return False

    def _give_back(self) -> None:
        try:
            with closing(_connected(self.url)) as connection:
                connection.execute("SET statement_timeout = 0")
                connection.execute("VACUUM perturank_log, perturank_blobs")
        except (NotReady, psycopg.Error) as error:
            logger.warning("the room of records that are gone is left to autovacuum: %s", error)

    def sums(self, spans: tuple[int, ...], since: int = 0, model: str | None = None) -> list[sums.Sums]:
        """Return the running sums over these spans."""
        return sums.read(lambda query, values: self._all(query.replace("?", "%s"), values), TABLE, spans, since, model)

    def is_led(self) -> bool:
        """Return whether any connection holds the learner's lock."""
        query = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
        both = (self._lock >> 32, self._lock & 0xFFFFFFFF)
        return self._one(f"{query} AND classid::bigint = %s AND objid::bigint = %s", both) is not None

    def try_to_lead(self) -> bool:
        """Return whether this process holds the lock; the database frees it when the connection ends."""
        if self._lead is None or self._lead.closed:
            self._lead = _connected(self.url)
        try:
            if _leads(self._lead):  # held locks are counted; one is enough
                return True
            row = self._lead.execute("SELECT pg_try_advisory_lock(%s)", (self._lock,)).fetchone()
            return bool(row and row[0])
        except AWAY:
            raise NotReady("the database went away", "another learner may lead now") from None

    def room(self) -> None:
        """Return nothing: the disk is the database's, and not asked for."""

    def size(self) -> int:
        """Return the bytes of log and stored versions, with indexes."""
        query = "SELECT pg_total_relation_size('perturank_log') + pg_total_relation_size('perturank_blobs')"
        return int(self._one(query)[0])

    def close(self) -> None:
        """Close the connections, and let another learner lead."""
        if self._lead is not None:
            self._lead.close()
            self._lead = None
        self._connections.close()


class PostgresTransaction(Writing):
    """Writes while the head's row is locked."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        row = connection.execute("SELECT position, at FROM perturank_head FOR UPDATE").fetchone()
        assert row is not None
        super().__init__(*row)

    def finish(self) -> None:
        """Write what is left and where the log ends now, and bring the sums up to date."""
        self.flush()
        self.tally.write(self.execute, TABLE, self._end.at)
        self._connection.execute("UPDATE perturank_head SET position = %s, at = %s", (self._end.position, self._end.at))

    def execute(self, query: str, values: tuple[Any, ...]) -> psycopg.Cursor[Any]:
        """Run SQL with question marks."""
        return self._connection.execute(query.replace("?", "%s"), values)

    def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany("INSERT INTO perturank_log VALUES (%s, %s, %s, %s, %s, %s)", rows)

    def _read_about(self, impressions: list[bytes]) -> psycopg.Cursor[Any]:
        query = f"SELECT {COLUMNS} FROM perturank_log WHERE impression = ANY(%s) ORDER BY position"
        return self._connection.execute(query, (impressions,))

    def _read_newest(self, model: str, kind: type) -> Any:
        query = f"SELECT {COLUMNS} FROM perturank_log WHERE kind NOT IN {FREQUENT} AND model = %s AND kind = %s"
        return self._connection.execute(f"{query} ORDER BY position DESC LIMIT 1", (model, KINDS[kind])).fetchone()

    def _delete(self, positions: Sequence[int], impressions: Sequence[bytes]) -> int:
        execute = self._connection.execute
        n = execute("DELETE FROM perturank_log WHERE position = ANY(%s)", (list(positions),)).rowcount
        return n + execute("DELETE FROM perturank_log WHERE impression = ANY(%s)", (list(impressions),)).rowcount

    def store(self, name: str, content: bytes) -> None:
        """Keep bytes under a name."""
        query = (
            "INSERT INTO perturank_blobs VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET content = EXCLUDED.content"
        )
        self._connection.execute(query, (name, content))

    def remove(self, name: str) -> None:
        """Forget the bytes of this name."""
        self._connection.execute("DELETE FROM perturank_blobs WHERE name = %s", (name,))

    def remove_all(self, prefix: str) -> None:
        """Forget the bytes of all names that begin so."""
        self._connection.execute("DELETE FROM perturank_blobs WHERE starts_with(name, %s)", (prefix,))

    def remember(self, name: str, value: int) -> None:
        """Keep a number under a name."""
        query = "INSERT INTO perturank_numbers VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value"
        self._connection.execute(query, (name, value))

    def remembered(self, name: str) -> int:
        """Return the number of this name; 0 where there is none."""
        row = self._connection.execute("SELECT value FROM perturank_numbers WHERE name = %s", (name,)).fetchone()
        return int(row[0]) if row else 0


def _connected(url: str) -> psycopg.Connection[Any]:
    try:
        options = PATIENCE | conninfo_to_dict(url)  # what the address says counts
        connection = psycopg.connect(**options, autocommit=True)
        connection.execute(SESSION)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise NotReady("the database cannot be reached", "check that it runs and its address") from error
    return connection


def _reason(error: BaseException | None, url: str) -> str:
    """Return what the database, or its library, says in one line; what it quotes of the address only if that is shown.

    An address that was misread has parts of the password where a host, a port or an option should be.
    """
    if '"' in url or "'" in url:
        return "its address cannot be read"
    shown = without_password(url)
    said = (error.diag.message_primary if isinstance(error, psycopg.Error) else None) or str(error)
    return " ".join(QUOTED.sub(lambda quoted: quoted[0] if _is_shown(quoted[2], shown) else "***", said).split())


def _is_shown(text: str, address: str) -> bool:
    """Return whether a part of an address is no secret: it is shown, or a socket in a folder that is, or a number."""
    folder, _, name = text.rpartition("/")
    if text in address or (folder and folder in address and name.startswith(".s.PGSQL.")):
        return True
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def _leads(connection: psycopg.Connection[Any]) -> bool:
    query = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"
    return connection.execute(query).fetchone() is not None
