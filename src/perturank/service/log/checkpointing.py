"""Merging SQLite's -wal file into the log beside the commits: who waits for a commit does not wait for this too."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing

from perturank.service.lines import lines

PAGE_BYTES = 4096
PAGES_TO_MERGE = 1000  # written since the last time, about
MOST_PAGES = 16_000  # in the -wal file: beyond, a commit merges them itself, and what writes has to wait
PASSES = 3  # what is committed during one is left to the next; when nothing is, the file begins anew


class Checkpointer:
    """Starts a thread when enough has been written, at most one at a time, with a connection of its own.

    What it cannot merge, on a full disk say, is as safe in the -wal file as before, and tried again later.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._pages = 0
        self._thread: threading.Thread | None = None
        self._is_closed = self._is_failing = False

    def wrote(self, n_rows: int, n_bytes: int) -> None:
        """Note what was committed: each row touches a page, and its bytes fill some."""
        with self._lock:
            self._pages += n_rows + n_bytes // PAGE_BYTES
            is_busy = self._thread is not None and self._thread.is_alive()
            if self._pages < PAGES_TO_MERGE or is_busy or self._is_closed:
                return
            thread = threading.Thread(target=self._merge, name="checkpointer", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there are too many: what was committed is committed all the same
                return
            self._thread, self._pages = thread, 0

    def wait(self) -> None:
        """Wait for what is under way."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Wait for what is under way, and begin no more."""
        with self._lock:
            self._is_closed = True
        self.wait()

    def _merge(self) -> None:
        try:
            with closing(self._connect()) as connection:
                for _ in range(PASSES):
                    _, n_pages, n_merged = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                    if n_merged == n_pages:
                        break
            self._is_failing = False
        except sqlite3.DatabaseError as error:
            if not self._is_failing:  # it is tried again, and said once
                lines.warning("the -wal file cannot be merged into the log, which keeps it: %s", error)
            self._is_failing = True
