"""A log by its address: sqlite:///FILE."""

from __future__ import annotations

from pathlib import Path

from perturank.errors import BadInput
from perturank.service.log import Log
from perturank.service.log.sqlite import SqliteLog

SQLITE = "sqlite:///"


def open_log(url: str, *, create: bool = False) -> Log:
    """Return the log at this address; sqlite:///perturank.db is in this folder, sqlite:////tmp/x.db is not."""
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        return SqliteLog(Path(url.removeprefix(SQLITE)), create=create)
    raise BadInput(f"{url!r} is no address of a log", "write sqlite:///FILE")
