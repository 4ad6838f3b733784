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
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from perturank.errors import BadInput
from perturank.service.log.records import SECRET_BYTES
from perturank.service.log.refusals import LogFull, NotReady
from perturank.service.log.sql import SqlLog
from perturank.service.settings import without_password

logger = logging.getLogger("perturank.service")
FORMAT = 1
QUOTED = re.compile(r"""(["'])(.*?)\1""")
SECONDS_FOR_ROOM = 0.01  # to wait for what is under way
STARTING = 7_073_517_275  # the number of the advisory lock of those that make the tables; any would do
HEAD = """
CREATE TABLE perturank_head (one boolean PRIMARY KEY DEFAULT true CHECK (one), position bigint, at bigint,
                             format integer, secret bytea);
CREATE TABLE perturank_numbers (name text PRIMARY KEY, value bigint NOT NULL);
"""
DEFLATED = "ALTER TABLE perturank_log ALTER COLUMN body SET STORAGE EXTERNAL"  # PostgreSQL need not try it again
MADE = "SELECT relname FROM pg_class WHERE starts_with(relname, 'perturank_') AND pg_table_is_visible(oid)"
# A client machine that vanishes, or a stopped process, must not hold the lock for long.
SESSION = """
SET synchronous_commit = on; SET tcp_keepalives_idle = 3; SET tcp_keepalives_interval = 1;
SET tcp_keepalives_count = 3; SET tcp_user_timeout = 5000; SET idle_in_transaction_session_timeout = 5000
"""
# A database that vanishes must not block clients for long. Of several addresses, the writable one is used.
TIMEOUTS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
    "target_session_attrs": "read-write",
}
# InternalError: the database became a replica, or the transaction took too long.
AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)


class PostgresLog(SqlLog[psycopg.Connection[Any]]):
    """A log in a database."""

    prefix, numbers = "perturank_", "perturank_numbers"
    position_type, bytes_type = "bigint", "bytea"
    end = "SELECT position, at FROM perturank_head"
    end_for_update = f"{end} FOR UPDATE"
    starts_with = "starts_with(name, ?)"
    lost = AWAY

    def __init__(self, url: str, *, create: bool = True) -> None:
        super().__init__()
        self.url = url
        self._lead: psycopg.Connection[Any] | None = None
        self._vacuum: threading.Thread | None = None
        try:
            with self.borrow() as connection, connection.transaction():
                self._create(connection, create)
        except NotReady as error:
            why = reason(error.__cause__, url)
            raise BadInput(f"the database cannot be reached: {why}", "check that it runs and its address") from None
        except psycopg.Error as error:
            raise BadInput(f"the database cannot hold the log: {reason(error, url)}") from None
        ((version, self.secret),) = self.rows("SELECT format, secret FROM perturank_head")
        if version != FORMAT:
            raise BadInput(f"the log has format {version}", f"this version reads format {FORMAT}")
        self._lock = int.from_bytes(hashlib.blake2b(self.secret, digest_size=7).digest(), "big")

    def _create(self, connection: psycopg.Connection[Any], create: bool) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (STARTING,))  # two processes may start at once
        # Asked for first: CREATE … IF NOT EXISTS would lock the table in any case.
        made = {name for (name,) in connection.execute(MADE)}
        is_new = "perturank_head" not in made
        if is_new and not create:
            raise BadInput("the database holds no log", "start one with `perturank serve`")
        self.create_missing(connection, made)
        if is_new:
            connection.execute(HEAD)
            connection.execute(DEFLATED)
            row = (0, 0, FORMAT, os.urandom(SECRET_BYTES))
            connection.execute("INSERT INTO perturank_head (position, at, format, secret) VALUES (%s, %s, %s, %s)", row)

    def connect(self) -> psycopg.Connection[Any]:
        """Return a new connection."""
        try:
            options = TIMEOUTS | conninfo_to_dict(self.url)  # options of the address take precedence
            connection = psycopg.connect(**options, autocommit=True)
            connection.execute(SESSION)
        except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
            raise NotReady("the database cannot be reached", "check that it runs and its address") from error
        return connection

    def execute(
        self, connection: psycopg.Connection[Any], query: str, values: Sequence[Any] = ()
    ) -> psycopg.Cursor[Any]:
        """Run a statement."""
        return connection.execute(query.replace("?", "%s"), values)

    def insert(self, connection: psycopg.Connection[Any], rows: list[tuple[Any, ...]]) -> None:
        """Write rows of the log."""
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO perturank_log VALUES (%s, %s, %s, %s, %s, %s)", rows)

    def among(self, column: str, values: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield one condition."""
        yield f"{column} = ANY(?)", (list(values),)

    def exclusive(self, connection: psycopg.Connection[Any]) -> AbstractContextManager[object]:
        """Begin a transaction, which then locks the row of the last position."""
        return connection.transaction()

    @contextmanager
    def refusals(self, done: str) -> Iterator[None]:
        """Raise PostgreSQL's errors as refusals."""
        try:
            yield
        except (errors.DiskFull, errors.InsufficientResources) as error:
            raise LogFull(f"the log cannot be {done} ({error})", "make room and send it again") from None
        except AWAY:
            raise NotReady("the database went away", "send it again in a moment") from None

    def move_end(self, connection: psycopg.Connection[Any], position: int, at: int) -> None:
        """Write the last position and its time into the row that is locked."""
        connection.execute("UPDATE perturank_head SET position = %s, at = %s", (position, at))

    def give_back(self) -> bool:
        """Vacuum the tables in a thread, since that takes long with a large log; new records then reuse the free space.

        The database continues when this process ends.
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
            with closing(self.connect()) as connection:
                connection.execute("SET statement_timeout = 0")
                connection.execute("VACUUM perturank_log, perturank_blobs")
        except (NotReady, psycopg.Error) as error:
            logger.warning("the vacuum failed, and autovacuum will free the space of deleted records: %s", error)

    def damage(self) -> list[str]:
        """Return nothing: PostgreSQL checks its own files."""
        return []

    def is_led(self) -> bool:
        """Return whether any connection holds the learner's lock."""
        query = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
        both = (self._lock >> 32, self._lock & 0xFFFFFFFF)
        return bool(self.rows(f"{query} AND classid::bigint = ? AND objid::bigint = ?", both))

    def try_to_lead(self) -> bool:
        """Return whether this process holds the lock; the database frees it when the connection ends."""
        if self._lead is None or self._lead.closed:
            self._lead = self.connect()
        try:
            if _leads(self._lead):  # held locks are counted; one is enough
                return True
            row = self._lead.execute("SELECT pg_try_advisory_lock(%s)", (self._lock,)).fetchone()
            return bool(row and row[0])
        except AWAY:
            raise NotReady("the database went away", "another learner may lead now") from None

    def room(self) -> None:
        """Return None: the disk is on the database's machine."""

    def size(self) -> int:
        """Return the bytes of log and stored versions, with indexes."""
        query = "SELECT pg_total_relation_size('perturank_log') + pg_total_relation_size('perturank_blobs')"
        return int(self.rows(query)[0][0])

    def close(self) -> None:
        """Close the connections, and let another learner lead."""
        if self._lead is not None:
            self._lead.close()
            self._lead = None
        super().close()


def reason(error: BaseException | None, url: str) -> str:
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
