"""A spare copy of the -wal file, for as long as the log may be merged in part.

A log that is merged in part needs all of its -wal file: the copy is on the disk before the first page is merged, and
goes when the last one is. So somebody may cut the -wal file at any byte and at any moment.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perturank.service.log import wal
from perturank.service.log.wal import Extent, beside

END = "-merging"
BYTES_AT_ONCE = 1 << 16
SECONDS_BETWEEN_LOOKS = 0.01


class Spare:
    """Copies what is going to be merged; only for whoever is alone with the files."""

    def __init__(self, path: Path) -> None:
        self._wal, self._file = beside(path, wal.END), beside(path, END)
        self._held: Extent | None = None

    def wal_reach(self) -> Extent | None:
        """Return how far the -wal file reaches, while nobody writes."""
        return wal.extent(self._wal)

    def take(self, wanted: Extent | None) -> None:
        """Have everything up to there on the disk; nobody may begin the -wal file anew meanwhile."""
        if wanted is None:  # there is nothing to merge
            return
        if self._held is None or self._held.salts != wanted.salts:
            copied(self._wal, self._file, wanted.n_whole)
        elif self._held.n_whole < wanted.n_whole:
            with self._wal.open("rb") as source, self._file.open("r+b") as target:
                _copy(source.fileno(), target.fileno(), self._held.n_whole, wanted.n_whole)
        self._held = wanted

    def drop(self) -> None:
        """Remove it: everything that it holds is merged."""
        self._file.unlink(missing_ok=True)
        self._held = None


def copied(source: Path, target: Path, n_bytes: int) -> None:
    """Copy the first bytes of a file to the disk, beside the target, which is replaced when they are there."""
    written = beside(target, "-new")
    try:
        written.touch(0o600)  # it holds clicks
        with source.open("rb") as old, written.open("wb") as new:
            _copy(old.fileno(), new.fileno(), 0, n_bytes)
        written.replace(target)
    finally:
        written.unlink(missing_ok=True)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _copy(source: int, target: int, start: int, end: int) -> None:
    os.lseek(target, start, os.SEEK_SET)
    while start < end:
        some = os.pread(source, min(BYTES_AT_ONCE, end - start), start)
        if not some:
            raise OSError(f"the -wal file ends {end - start} bytes too early: somebody cuts it")
        start += os.write(target, some)
    os.fsync(target)


@contextmanager
def alone(path: Path, seconds: float) -> Iterator[bool]:
    """Let nobody else merge or mend the log; False: somebody has been at it for so long.

    The lock is on the folder: one on the log itself would end those of SQLite with it.
    """
    held, end = os.open(path.parent, os.O_RDONLY), time.monotonic() + seconds
    try:
        while not (is_mine := _is_locked(held)) and time.monotonic() < end:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        yield is_mine
    finally:
        os.close(held)


def _is_locked(held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
