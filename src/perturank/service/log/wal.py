"""SQLite's -wal file as it lies on the disk: how far its transactions are whole, and what follows them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

END = "-wal"
HEADER, FRAME_HEADER = 32, 24
COUNT_AT = FRAME_HEADER + 60  # of a frame with the first page: the number that counts commits
FRAMES_AT_ONCE = 32
STEP = np.array([[1, 1], [1, 2]], np.uint32)  # what one pair of words does to the two sums before it
PAIR = np.array([[1, 0], [1, 1]], np.uint32)  # what it adds to them itself

Sums = tuple[int, int]


@dataclass(frozen=True)
class Extent:
    """How far a -wal file reaches: its own frames carry its salts, and older ones may follow."""

    salts: bytes
    n_whole: int  # bytes up to the end of the last whole transaction
    n_own: int  # bytes up to the end of its last frame, whole or not
    sums: Sums  # over everything up to the end of the last whole transaction
    counts: tuple[int, int] | None  # of commits, as the first and the last whole transaction have it
    first_page: int | None  # where the last whole transaction found the first page


def beside(path: Path, end: str) -> Path:
    """Return the file whose name goes on like this."""
    return path.with_name(path.name + end)


def extent(file: Path, known: Extent | None = None) -> Extent | None:
    """Return how far a -wal file reaches, by SQLite's own checksums; None: there is none, or not even its header.

    Of what is `known` to be whole nothing is read again, if it is still there.
    """
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        return None
    with opened:
        number, header = opened.fileno(), opened.read(HEADER)
        if len(header) < HEADER:
            return None
        size = FRAME_HEADER + int.from_bytes(header[8:12], "big")
        start = Extent(header[16:24], HEADER, HEADER, _pair(header[24:32]), None, None)
        if known is not None and known.salts == start.salts and known.sums == _sums_at(number, known.n_whole, size):
            start = known
        return _followed(number, start, size, ">u4" if header[3] & 1 else "<u4")


def begins_with(file: Path, known: Extent) -> bool:
    """Return whether a -wal file has what is known: its sums go over everything before them."""
    found = extent(file, known)
    return found is not None and found.salts == known.salts and found.n_whole >= known.n_whole


def n_unfinished_bytes(path: Path) -> int:
    """Return how many bytes follow the last whole transaction, after a crash or a cut; SQLite passes them over."""
    file = beside(path, END)
    found = extent(file)
    if found is None:
        return file.stat().st_size if file.exists() else 0
    return found.n_own - found.n_whole


def _followed(number: int, start: Extent, size: int, words: str) -> Extent:
    """Return how far frames go on from here whose sums are right, and how far others with the same salts."""
    at, sums, first_page, whole = start.n_whole, start.sums, start.first_page, start
    all_pairs, own = _weights((size - FRAME_HEADER + 8) // 8), np.frombuffer(start.salts, np.uint8)
    are_right = True
    while True:
        content = os.pread(number, FRAMES_AT_ONCE * size, at)
        frames = np.frombuffer(content, np.uint8, len(content) // size * size).reshape(-1, size)
        n_own = int(np.logical_and.accumulate((frames[:, 8:16] == own).all(1)).sum())
        summed = np.hstack([frames[:n_own, :8], frames[:n_own, FRAME_HEADER:]]).view(words)
        added = (summed.astype(np.uint32) @ all_pairs[1]).tolist()
        for frame, (one, other) in zip(frames, added, strict=False):
            if are_right:
                sums = _stepped(all_pairs[0], sums, one, other)
                are_right = sums == _pair(frame[16:24].tobytes())
            if are_right:
                first_page = at if frame[:4].tobytes() == b"\0\0\0\1" else first_page
            at += size
            if are_right and frame[4:8].any():  # the last frame of a transaction says the file's size
                whole = Extent(start.salts, at, at, sums, _counted(number, whole.counts, first_page), first_page)
        if n_own < FRAMES_AT_ONCE:
            rest = content[n_own * size :]
            is_torn = len(rest) < size and rest[8:16] == start.salts[: len(rest[8:16])]
            n_read = at + len(rest) if is_torn else at
            return Extent(whole.salts, whole.n_whole, n_read, whole.sums, whole.counts, whole.first_page)


def _counted(number: int, before: tuple[int, int] | None, first_page: int | None) -> tuple[int, int] | None:
    if first_page is None:
        return None
    n = int.from_bytes(os.pread(number, 4, first_page + COUNT_AT), "big")
    return (before[0] if before else n), n


def _sums_at(number: int, end: int, size: int) -> Sums:
    """Return the sums that are written where something ends."""
    return _pair(os.pread(number, 8, 24 if end == HEADER else end - size + 16))


def _pair(content: bytes) -> Sums:
    return int.from_bytes(content[:4], "big"), int.from_bytes(content[4:8], "big")


def _stepped(step: list[list[int]], sums: Sums, one: int, other: int) -> Sums:
    (a, b), (c, d) = step
    return (a * sums[0] + b * sums[1] + one) % 2**32, (c * sums[0] + d * sums[1] + other) % 2**32


@cache
def _weights(n_pairs: int) -> tuple[list[list[int]], np.ndarray]:
    """Return what becomes of the sums before so many pairs of words, and the weight in them of each word.

    SQLite's sums are a += x + b, b += y + a for each pair (x, y), modulo 2^32.
    """
    power, weights = np.eye(2, dtype=np.uint32), []
    for _ in range(n_pairs):
        weights.append((power @ PAIR).T)
        power = power @ STEP
    return power.tolist(), np.concatenate(weights[::-1])
