"""Locks between processes, on empty files beside the log: one on the log itself would end those of SQLite with it."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from perturank.service.log.wal import beside

OPEN, MERGE = "-open", "-merge"
SECONDS_BETWEEN_LOOKS = 0.01


@contextmanager
def alone(path: Path, seconds: float) -> Iterator[bool]:
    """Let nobody else merge the log; False: somebody has been at it for so long."""
    with _file(path, MERGE) as file:
        end = time.monotonic() + seconds
        while not (is_mine := locked(file, fcntl.LOCK_EX)) and time.monotonic() < end:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        yield is_mine


class Presence:
    """Says that the log is open here, for as long as this is."""

    def __init__(self, path: Path) -> None:
        self._file = _file(path, OPEN)

    def is_only(self) -> bool:
        """Return whether nobody else has the log open, and keep others from it."""
        return not self._file.closed and locked(self._file, fcntl.LOCK_EX)

    def is_shared(self) -> bool:
        """Return whether others may have it open as well: none of them is the only one, and needs to be."""
        return locked(self._file, fcntl.LOCK_SH)

    def close(self) -> None:
        """Let another be the only one."""
        self._file.close()


def locked(file: IO[str], how: int) -> bool:
    """Lock a file until it is closed, if nobody else has."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _file(path: Path, end: str) -> IO[str]:
    file = beside(path, end)
    file.touch(0o600)
    return file.open("a")
