"""Whether SQLite's -wal file ends inside a transaction, as it does after a crash or when somebody cut it."""

from __future__ import annotations

from pathlib import Path

HEADER, FRAME_HEADER = 32, 24
SALTS = slice(16, 24)  # of the header; a frame has them at 8..16


def n_unfinished_bytes(path: Path) -> int:
    """Return how many bytes follow the last whole transaction; SQLite passes them over."""
    file = path.with_name(path.name + "-wal")
    content = file.read_bytes() if file.exists() else b""
    if len(content) <= HEADER:
        return len(content) % HEADER
    size = FRAME_HEADER + int.from_bytes(content[8:12], "big")
    at = whole = HEADER
    while at + size <= len(content) and content[at + 8 : at + 16] == content[SALTS]:
        at += size
        if content[at - size + 4 : at - size + 8] != bytes(4):  # the last frame of a transaction says the file's size
            whole = at
    ours = content[at + 8 : at + 16]
    torn = len(content) - at if at + size > len(content) and ours == content[SALTS][: len(ours)] else 0
    return at - whole + torn
