"""A spare copy of the -wal file, for as long as the log may be merged in part.

A log that is merged in part needs all of its -wal file: the copy is on the disk before the first page is merged, and
goes when the last one is. So somebody may cut the -wal file at any byte and at any moment.
"""

from __future__ import annotations

import os
from pathlib import Path

from perturank.service.log import wal
from perturank.service.log.wal import Extent, beside

END = "-merging"
BYTES_AT_ONCE = 1 << 16


class Spare:
    """Copies what is going to be merged; only for whoever is alone in merging."""

    def __init__(self, path: Path) -> None:
        self._wal, self._file = beside(path, wal.END), beside(path, END)
        self._reach: Extent | None = None
        self._held: Extent | None = None

    def look(self) -> Extent | None:
        """Return how far the -wal file reaches; most of that is known from the last look."""
        self._reach = wal.extent(self._wal, self._reach)
        return self._reach

    def take(self, wanted: Extent | None) -> None:
        """Have everything up to there on the disk; nobody may begin the -wal file anew meanwhile."""
        if wanted is None:  # there is nothing to merge
            return
        if self._held is None or self._held.n_whole > wanted.n_whole or not wal.begins_with(self._wal, self._held):
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
