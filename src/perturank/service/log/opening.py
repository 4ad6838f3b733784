"""A log by its address, sqlite:///FILE or postgresql://HOST/NAME."""

from __future__ import annotations

from pathlib import Path

from perturank.errors import BadInput
from perturank.service.log import Log
from perturank.service.log.sqlite import SQLITE, SqliteLog
from perturank.service.settings import without_password

try:  # an extra of its own
    from perturank.service.log import postgres
except ModuleNotFoundError as error:
    if not str(error.name).startswith("psycopg"):
        raise
    postgres = None  # type: ignore[assignment]

POSTGRES = ("postgresql://", "postgres://")


def open_log(url: str, *, create: bool = False) -> Log:
    """Return the log at this address; sqlite:///perturank.db is in this folder, sqlite:////var/lib/x.db is not."""
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        return SqliteLog(Path(url.removeprefix(SQLITE)), create=create)
    if url.startswith(POSTGRES):
        if postgres is None:
            raise BadInput("psycopg is not installed", "run: pip install 'perturank[postgres]'")
        return postgres.PostgresLog(url, create=create)
    raise BadInput(
        f"{without_password(url)!r} is no address of a log", "write sqlite:///FILE or postgresql://USER@HOST/NAME"
    )
