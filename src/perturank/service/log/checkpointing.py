"""When SQLite's -wal file is merged into the log: beside the commits, so that who waits for one waits for no merge."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from perturank.service.log.merging import Merger, reading

logger = logging.getLogger("perturank.service")
PAGE_BYTES = 4096
PAGES_TO_MERGE = 1000  # written since the last time, about
MOST_PAGES = 16_000  # written since then: beyond, what writes has to wait
SECONDS_TO_CUT, SECONDS_BETWEEN_CUTS = 30.0, 0.01


class Checkpointer:
    """Starts a thread when enough has been written, at most one at a time.

    What it cannot merge, on a full disk say, is as safe in the -wal file as before, and tried again later.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: Path) -> None:
        self._connect, self._path = connect, path
        self._merger = Merger(connect, path)
        self.let_pass = self._merger.let_pass
        self._lock = threading.Lock()
        self._pages = 0  # written since the last merge
        self._due = 0  # at least so many before the next, after one in vain
        self._thread: threading.Thread | None = None
        self._is_closed = self._is_failing = False

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
        while not self._merger.cut() and time.monotonic() < end:
            time.sleep(SECONDS_BETWEEN_CUTS)

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
            is_merged = self._merger.merge()
            self._is_failing = False
        except (OSError, sqlite3.DatabaseError) as error:
            is_merged = False
            if not self._is_failing:  # it is tried again, and said once
                logger.warning("the -wal file cannot be merged into the log, which keeps it: %s", error)
            self._is_failing = True
        with self._lock:
            self._pages -= before if is_merged else 0
            # Somebody reads an old state, or writes without a pause: what is copied in vain must not add up.
            self._due = 0 if is_merged else 2 * self._pages
        return is_merged
