"""Locks between processes, on empty files beside the log: one on the log itself would end those of SQLite with it."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perturank.service.log.wal import beside

SECONDS_BETWEEN_LOOKS = 0.01


class Lock:
    """A lock that one process holds alone, or several share; it is free when who holds it is gone."""

    def __init__(self, path: Path, end: str) -> None:
        file = beside(path, end)
        file.touch(0o600)
        self._file = file.open("a")

    def is_mine(self) -> bool:
        """Take it for us alone, if nobody else has it; what we shared is lost, if somebody has."""
        return self._is_locked(fcntl.LOCK_EX)

    def is_shared(self) -> bool:
        """Take it with others, unless somebody has it alone."""
        return self._is_locked(fcntl.LOCK_SH)

    def _is_locked(self, how: int) -> bool:
        try:
            fcntl.flock(self._file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @property
    def is_closed(self) -> bool:
        """Whether it is given up for good."""
        return self._file.closed

    def close(self) -> None:
        """Give it up."""
        self._file.close()


def open_here(path: Path) -> Lock:
    """Return the lock that everybody shares who has the log open."""
    return Lock(path, "-open")


def leading(path: Path) -> Lock:
    """Return the lock of the learner."""
    return Lock(path, "-learner")


@contextmanager
def alone(path: Path, seconds: float) -> Iterator[bool]:
    """Let nobody else merge the log; False: somebody has been at it for so long."""
    lock, end = Lock(path, "-merge"), time.monotonic() + seconds
    try:
        while not (is_mine := lock.is_mine()) and time.monotonic() < end:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        yield is_mine
    finally:
        lock.close()
