"""What was merged of a -wal file that somebody cut: SQLite would lay its old pages over newer ones.

Every commit counts itself in the header of the file. After a merge that reached the last commit of its moment, the
file is whole up to there, and so is its count: where it is ahead of what is left in the -wal file, that is older and
not needed. While a merge is under way, or was killed, or somebody who reads keeps it from the last commit, the file
needs its -wal file. An empty file beside it says so; a -wal file that was cut then leaves what has to be looked at.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from perturank.errors import BadInput
from perturank.service.lines import lines
from perturank.service.log.wal import n_unfinished_bytes

WAL, MERGING = "-wal", "-merging"
MOST_BYTES_TO_CHECK = 2_000_000_000  # some seconds, which a start may take
COMMITS = 2**31  # there the count begins anew: SQLite keeps this number in 31 bits
OF_AN_INDEX = re.compile(r"(row \d+ missing from|row \d+ values differ from|wrong # of entries in) index ")


def count(connection: sqlite3.Connection) -> None:
    """Count the commit of this transaction; a file that grows writes the page of the number anyway."""
    (n,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {(n + 1) % COMMITS}")


def mend(path: Path) -> None:
    """Take away a -wal file that ends before what the log has merged of it; refuse a log that is not whole then."""
    if not path.exists() or not beside(path, WAL).exists():
        return
    with _one_at_a_time(path.parent):  # nobody looks at files that another takes away
        _mend(path)


def _mend(path: Path) -> None:
    if _is_ahead(path):
        _drop(path)
    elif beside(path, MERGING).exists() and n_unfinished_bytes(path):  # or it was killed while it wrote as well
        if path.stat().st_size < MOST_BYTES_TO_CHECK:
            _index_again(path, _checked(path, "mode=ro"))
        else:
            lines.warning("the log ends while it was merged: see whether `perturank log verify` finds all of it whole")


def _drop(path: Path) -> None:
    problems, n_bytes = _checked(path, "immutable=1"), beside(path, WAL).stat().st_size
    for end in (WAL, "-shm"):
        beside(path, end).unlink(missing_ok=True)
    says = "the -wal file was cut below what is merged of it: its %d bytes are dropped, the log has newer ones"
    lines.warning(says, n_bytes)
    if beside(path, MERGING).exists():
        lines.warning("this was while it was merged: see whether `perturank log verify` finds all of it whole")
    _index_again(path, problems)


def _is_ahead(path: Path) -> bool:
    """Return whether the file holds later commits than it seems to with its -wal file; never while others write."""
    if not beside(path, WAL).exists():
        return False
    with closing(_opened(path, "immutable=1")) as alone:  # first: both only ever grow
        alone.execute("PRAGMA writable_schema = ON")  # which reads a header that is ahead of its file, too
        (merged,) = alone.execute("PRAGMA user_version").fetchone()
    with closing(_opened(path, "mode=ro")) as both:  # which does not merge when it closes
        (seen,) = both.execute("PRAGMA user_version").fetchone()
    return 0 < (merged - seen) % COMMITS < COMMITS // 2


def _checked(path: Path, how: str) -> list[str]:
    """Return in which indexes rows are missing; where more than that does not fit together, refuse."""
    try:
        with closing(_opened(path, how)) as connection:
            texts = [text for (text,) in connection.execute("PRAGMA integrity_check")]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        texts = [str(error)]
    found = [line for text in texts for line in text.splitlines() if line != "ok" and not line.startswith("***")]
    other = next((line for line in found if not OF_AN_INDEX.match(line)), None)
    if other is not None:
        what = f"{path}: the -wal file was cut below what was being merged of it ({other})"
        raise BadInput(what, f"restore a backup; `sqlite3 {path.name} .recover` reads what is left")
    return found


def _index_again(path: Path, problems: list[str]) -> None:
    if problems:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("REINDEX")
        lines.warning("the log's indexes did not fit its rows and are made anew (%s)", problems[0])


def _opened(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)


def beside(path: Path, end: str) -> Path:
    """Return the file whose name goes on like this."""
    return path.with_name(path.name + end)


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder: one on the log itself would end those of SQLite with it."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
