"""Merging SQLite's -wal file into the log: nothing is merged that is not in a spare copy of it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from perturank.service.log import locking
from perturank.service.log.spare import Spare

PASSES = 20  # until one reaches the last commit, and the -wal file can begin anew
SECONDS_BETWEEN_PASSES = 0.01  # for somebody who reads an older state, which is what keeps it from the last
SECONDS_FOR_ANOTHER = 1.0  # process that merges
MILLISECONDS_TO_WAIT = 100  # for another process that writes


class Merger:
    """Merges with connections of its own, most of it beside the commits; only for the rest is nobody to write."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: Path) -> None:
        self._connect, self._path = connect, path
        self._may_write = threading.Event()
        self._may_write.set()

    def let_pass(self) -> None:
        """Wait, before a transaction, for a merge that needs a moment without one: SQLite's locks are not fair."""
        self._may_write.wait()

    def merge(
        self,
        patience: float = 0.0,
        at_end: Callable[[], None] = lambda: None,
        then: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Merge up to the last commit, if nobody keeps us from it; return whether it got there.

        `at_end` comes before anybody writes again, `then` before anybody merges again: all depends on what it returns.
        """
        with locking.alone(self._path, patience) as is_alone:
            return is_alone and self._is_whole(at_end) and then()

    def _is_whole(self, at_end: Callable[[], None]) -> bool:
        copy = Spare(self._path)
        copy.look()
        with closing(self._hasty()) as merging, closing(self._hasty()) as holding:
            with self._unwritten(merging) as is_unwritten:
                if not is_unwritten:
                    return False
                _read(holding)  # of what comes later, nothing is merged
                reach = copy.look()
            copy.take(reach)
            _merged(merging)
            holding.execute("ROLLBACK")
            for _ in range(PASSES):
                with self._unwritten(holding) as is_unwritten:
                    if is_unwritten:
                        copy.take(copy.look())
                        if _merged(merging):
                            copy.drop()
                            at_end()
                            return True
                time.sleep(SECONDS_BETWEEN_PASSES)
        return False

    def cut(self) -> bool:
        """Merge, and leave nothing in the -wal file; where anybody reads it or writes in between, it stays."""
        with closing(self._connect()) as reader, closing(self._connect()) as cutting:
            cutting.execute("PRAGMA busy_timeout = 0")

            def truncated() -> bool:
                busy, *_ = cutting.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return not busy

            # Who reads a log that is merged as a whole lets nobody merge more, which would be without a copy.
            return self.merge(SECONDS_FOR_ANOTHER, lambda: _read(reader), truncated)

    def _hasty(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute(f"PRAGMA busy_timeout = {MILLISECONDS_TO_WAIT}")
        return connection

    @contextmanager
    def _unwritten(self, connection: sqlite3.Connection) -> Iterator[bool]:
        """Let nobody write; False: another process does so without a pause, and may merge as well as we."""
        self._may_write.clear()
        try:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                yield False
                return
            try:
                yield True
            finally:
                connection.execute("ROLLBACK")
        finally:
            self._may_write.set()


def reading(path: Path) -> sqlite3.Connection:
    """Return a connection that keeps others from being the last to close: that one merges all, without a copy."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    connection.execute("PRAGMA user_version").fetchall()
    return connection


def _read(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    connection.execute("PRAGMA user_version").fetchall()


def _merged(connection: sqlite3.Connection) -> bool:
    """Merge what can be merged at once; return whether that is everything."""
    busy, n_pages, n_merged = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return not busy and n_pages == n_merged
