"""Merging SQLite's -wal file into the log beside the commits: who waits for a commit does not wait for this too."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from perturank.service.lines import lines
from perturank.service.log import locking
from perturank.service.log.spare import Spare

PAGE_BYTES = 4096
PAGES_TO_MERGE = 1000  # written since the last time, about
MOST_PAGES = 16_000  # written while others are merged: beyond, what writes has to wait
PASSES = 20  # until one reaches the last commit, and the -wal file can begin anew
SECONDS_BETWEEN_PASSES = 0.01  # for somebody who reads an older state, which is what keeps it from the last
SECONDS_FOR_ANOTHER = 1.0  # process that merges, or opens the log
SECONDS_TO_CUT = 30.0
MILLISECONDS_TO_WAIT = 100  # for another process that writes


class Checkpointer:
    """Starts a thread when enough has been written, at most one at a time, with connections of its own.

    What it cannot merge, on a full disk say, is as safe in the -wal file as before, and tried again later.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: Path) -> None:
        self._connect, self._path = connect, path
        self._lock = threading.Lock()
        self._pages = 0  # written since the last merge
        self._due = 0  # at least so many before the next, after one in vain
        self._thread: threading.Thread | None = None
        self._is_closed = self._is_failing = False
        self._may_write = threading.Event()
        self._may_write.set()

    def let_pass(self) -> None:
        """Wait, before a transaction, for a merge that needs a moment without one: SQLite's locks are not fair."""
        self._may_write.wait()

    def wrote(self, n_rows: int, n_bytes: int) -> None:
        """Note what was committed: each row touches a page, and its bytes fill some."""
        with self._lock:
            self._pages += n_rows + n_bytes // PAGE_BYTES
            is_busy = self._thread is not None and self._thread.is_alive()
            if self._pages >= max(self._due, PAGES_TO_MERGE) and not is_busy and not self._is_closed:
                self._start()
            is_behind = self._pages >= MOST_PAGES and self._due == 0  # else waiting would be in vain, too
        if is_behind:
            self.wait()

    def _start(self) -> None:
        thread = threading.Thread(target=self._try, name="checkpointer", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are too many: what was committed is committed all the same
            return
        self._thread = thread

    def wait(self) -> None:
        """Wait for what is under way."""
        if self._thread is not None:
            self._thread.join()

    def cut(self) -> None:
        """Merge everything and leave nothing in the -wal file, as soon as nobody reads it."""
        self.wait()
        end = time.monotonic() + SECONDS_TO_CUT
        while not self._is_cut() and time.monotonic() < end:
            time.sleep(SECONDS_BETWEEN_PASSES)

    def close(self) -> None:
        """Finish what is under way, and begin no more."""
        with self._lock:
            self._is_closed = True
        self.wait()

    def finish(self) -> None:
        """Merge everything, where nobody else has the log open: its other files go."""
        with closing(reading(self._path)):  # if anything fails, the last to close must be one that merges nothing
            is_merged = self._try()
        if is_merged:
            self._connect().close()

    def _try(self) -> bool:
        before = self._pages
        try:
            is_merged = self._is_merged(0.0)
            self._is_failing = False
        except (OSError, sqlite3.DatabaseError) as error:
            is_merged = False
            if not self._is_failing:  # it is tried again, and said once
                lines.warning("the -wal file cannot be merged into the log, which keeps it: %s", error)
            self._is_failing = True
        with self._lock:
            self._pages -= before if is_merged else 0
            # Somebody reads an old state, or writes without a pause: what is copied in vain must not add up.
            self._due = 0 if is_merged else 2 * self._pages
        return is_merged

    def _is_merged(
        self, patience: float, at_end: Callable[[], None] = lambda: None, then: Callable[[], bool] = lambda: True
    ) -> bool:
        """Merge up to the last commit; return whether it got there.

        `at_end` comes before anybody writes again, `then` before anybody merges again: all depends on what it returns.
        Most of it goes beside the commits, up to a state that is held by reading it; for the rest nobody is to write.
        Nothing is merged that is not in the spare copy.
        """
        with (
            locking.alone(self._path, patience) as is_alone,
            closing(self._connect()) as merging,
            closing(self._connect()) as holding,
        ):
            for connection in (merging, holding):
                connection.execute(f"PRAGMA busy_timeout = {MILLISECONDS_TO_WAIT}")
            if not is_alone:
                return False
            copy = Spare(self._path)
            copy.look()
            with self._unwritten(merging) as is_unwritten:
                if not is_unwritten:
                    return False
                _read(holding)
                reach = copy.look()
            copy.take(reach)
            _merged(merging)
            holding.execute("ROLLBACK")
            for _ in range(PASSES):
                with self._unwritten(holding) as is_unwritten:
                    if is_unwritten:
                        copy.take(copy.look())
                    if is_whole := is_unwritten and _merged(merging):
                        copy.drop()
                        at_end()
                if is_whole:
                    return then()
                time.sleep(SECONDS_BETWEEN_PASSES)
        return False

    def _is_cut(self) -> bool:
        """Merge and cut the -wal file; where anybody has written in between, that must be merged with a copy first."""
        with closing(self._connect()) as reader, closing(self._connect()) as cutting:
            cutting.execute("PRAGMA busy_timeout = 0")

            def cut() -> bool:
                busy, *_ = cutting.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return not busy

            # Who reads a log that is merged as a whole lets nobody merge more.
            return self._is_merged(SECONDS_FOR_ANOTHER, lambda: _read(reader), cut)

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
