"""Merging SQLite's -wal file into the log beside the commits: who waits for a commit does not wait for this too."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from perturank.service.lines import lines

PAGE_BYTES = 4096
PAGES_TO_MERGE = 1000  # written since the last time, about
MOST_PAGES = 16_000  # in the -wal file: beyond, a commit merges them itself, and what writes has to wait
PASSES = 20  # until one reaches the last commit: a log that is merged in part needs its -wal file to be whole
SECONDS_BETWEEN_PASSES = 0.01  # for somebody who reads an older state, which is what keeps it from the last


class Checkpointer:
    """Starts a thread when enough has been written, at most one at a time, with a connection of its own.

    What it cannot merge, on a full disk say, is as safe in the -wal file as before, and tried again later.
    The file `merging` is there as long as the log may be merged in part.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], merging: Path) -> None:
        self._connect, self._merging = connect, merging
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
                    self._merging.touch(0o600)
                    busy, n_pages, n_merged = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                    if n_merged == n_pages and not busy:  # with another process that merges
                        self._merging.unlink(missing_ok=True)
                        break
                    time.sleep(SECONDS_BETWEEN_PASSES)
            self._is_failing = False
        except (OSError, sqlite3.DatabaseError) as error:
            if not self._is_failing:  # it is tried again, and said once
                lines.warning("the -wal file cannot be merged into the log, which keeps it: %s", error)
            self._is_failing = True
