"""SQLite's -wal file as it lies on the disk: how far its transactions are whole, and what follows them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

END = "-wal"
HEADER, FRAME_HEADER = 32, 24
SALTS = slice(16, 24)  # of the header; a frame has them at 8..16
FIRST_PAGE = (1).to_bytes(4, "big")
COUNT_AT = 60  # of the first page: the number that counts commits


@dataclass(frozen=True)
class Extent:
    """How far a -wal file reaches: its own frames carry its salts, and older ones may follow."""

    salts: bytes
    n_whole: int  # bytes up to the end of the last whole transaction
    n_own: int  # bytes up to the end of its last frame, whole or not
    counts: tuple[int, int] | None  # of commits, as the first and the last whole transaction have it


def beside(path: Path, end: str) -> Path:
    """Return the file whose name goes on like this."""
    return path.with_name(path.name + end)


def extent(file: Path) -> Extent | None:
    """Return how far a -wal file reaches; None: there is none, or not even its header."""
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        return None
    with opened:
        number, header = opened.fileno(), opened.read(HEADER)
        if len(header) < HEADER:
            return None
        n_bytes, salts = os.fstat(number).st_size, header[SALTS]
        size = FRAME_HEADER + int.from_bytes(header[8:12], "big")
        at = whole = HEADER
        page: int | None = None  # where the first page was written last
        counted: list[int] = []
        while (frame := os.pread(number, FRAME_HEADER, at))[8:16] == salts and at + size <= n_bytes:
            page = at if frame[:4] == FIRST_PAGE else page
            at += size
            if frame[4:8] != bytes(4):  # the last frame of a transaction says the file's size
                whole = at
                counted = [*counted[:1], page] if page is not None else []
        is_torn = at + size > n_bytes and frame[8:16] == salts[: len(frame[8:16])]
        counts = [int.from_bytes(os.pread(number, 4, at + FRAME_HEADER + COUNT_AT), "big") for at in counted]
    return Extent(salts, whole, n_bytes if is_torn else at, (counts[0], counts[-1]) if counts else None)


def n_unfinished_bytes(path: Path) -> int:
    """Return how many bytes follow the last whole transaction, after a crash or a cut; SQLite passes them over."""
    file = beside(path, END)
    found = extent(file)
    if found is None:
        return file.stat().st_size if file.exists() else 0
    return found.n_own - found.n_whole
