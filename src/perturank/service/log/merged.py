"""A -wal file that somebody cut below what was merged of it: SQLite would lay its old pages over newer ones.

Every commit counts itself in the header of the file, whose page is the first to be merged. Where no spare copy of the
-wal file is beside it, the file is whole up to its count: if that is ahead of what is left in the -wal file, that is
older and not needed. Where there is one, the file may be merged in part, and the copy holds at least what was merged.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

from perturank.errors import BadInput
from perturank.service.log import spare, wal
from perturank.service.log.wal import beside

logger = logging.getLogger("perturank.service")
DATABASE_HEADER = 100  # bytes, which every commit changes
COMMITS = 2**31  # there the count begins anew: SQLite keeps this number in 31 bits


def count(connection: sqlite3.Connection) -> None:
    """Count the commit of this transaction; a file that grows writes the page of the number anyway."""
    (n,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {(n + 1) % COMMITS}")


def mend(path: Path) -> None:
    """Put back what a -wal file lacks that was being merged, or take it away where it ends before what is merged.

    Only for who is the only one: what others have open is whole.
    """
    if path.exists() and any(beside(path, end).exists() for end in (wal.END, spare.END)):
        _must_fit(path)
        _put_back(path)
        if _is_ahead(path):
            _drop(path)


def _must_fit(path: Path) -> None:
    """Refuse a -wal file that goes on from a later state than the file has: an older copy was put in its place."""
    found = wal.extent(beside(path, wal.END))
    if found is not None and found.counts is not None and _begins_after(found.counts, _count(path, "immutable=1")):
        what = f"{beside(path, wal.END).name} goes on from a later state than {path} has"
        raise BadInput(what, "put both back as they were, or move away what lies beside a copy of the log")


def _put_back(path: Path) -> None:
    """Make a -wal file that ends before its spare copy as long as that."""
    file, copy = beside(path, wal.END), beside(path, spare.END)
    kept, found = wal.extent(copy), wal.extent(file)
    if kept is None or kept.counts is None or not _is_needed(path, copy, kept):
        return
    if found is not None and (found.salts != kept.salts or found.n_whole >= kept.n_whole):
        return  # it was begun anew, after all of the copy had been merged; or it lacks nothing
    beside(path, "-shm").unlink(missing_ok=True)
    spare.copied(copy, file, kept.n_whole)
    says = "the -wal file was cut below what was being merged of it: %d bytes are put back from the copy of it"
    logger.warning(says, kept.n_whole - (0 if found is None else found.n_whole))


def _is_needed(path: Path, copy: Path, kept: wal.Extent) -> bool:
    """Return whether the file may be merged in part from this copy.

    It is not where the file is later, where an older one was put in its place, or where somebody else has changed it,
    whom we do not make count.
    """
    assert kept.counts is not None
    assert kept.first_page is not None
    merged = _count(path, "immutable=1")
    if merged != kept.counts[1]:
        return not _is_later(merged, kept.counts[1]) and not _begins_after(kept.counts, merged)
    with path.open("rb") as file, copy.open("rb") as other:
        other.seek(kept.first_page + wal.FRAME_HEADER)
        return file.read(DATABASE_HEADER) == other.read(DATABASE_HEADER)


def _drop(path: Path) -> None:
    """Take the -wal file away, if the file is whole without it."""
    with closing(_opened(path, "immutable=1")) as connection:
        try:
            (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            said = str(error)
    if said != "ok":
        what = f"{path}: the -wal file was cut below what was being merged of it, and no copy of it is there ({said})"
        raise BadInput(what, f"put the file {beside(path, spare.END).name} back beside it, or a backup in its place")
    n_bytes = beside(path, wal.END).stat().st_size
    for end in (wal.END, "-shm"):
        beside(path, end).unlink(missing_ok=True)
    says = "the -wal file was cut below what is merged of it: its %d bytes are dropped, the log has newer ones"
    logger.warning(says, n_bytes)


def _is_ahead(path: Path) -> bool:
    """Return whether the file holds later commits than it seems to with its -wal file."""
    if not beside(path, wal.END).exists():
        return False
    return _is_later(_count(path, "immutable=1"), _count(path, "mode=ro"))  # which does not merge when it closes


def _is_later(one: int, other: int) -> bool:
    return 0 < (one - other) % COMMITS < COMMITS // 2


def _begins_after(counts: tuple[int, int], merged: int) -> bool:
    """Return whether commits are missing between what is merged and the first of these."""
    return _is_later(counts[0] - 1, merged)


def _count(path: Path, how: str) -> int:
    with closing(_opened(path, how)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # which reads a header that is ahead of its file, too
        (n,) = connection.execute("PRAGMA user_version").fetchone()
    return int(n)


def _opened(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)
