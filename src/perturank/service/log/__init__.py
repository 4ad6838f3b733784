"""The log: a total order of all records that decide the models, in SQLite or in PostgreSQL, behind one protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from perturank.errors import BadInput
from perturank.service.log.counters import PendingCounters, PeriodCounters
from perturank.service.log.records import CurrentModel, Entry, Record
from perturank.service.log.sqlite import SQLITE, SqliteLog
from perturank.service.settings import without_password

try:  # an extra of its own
    from perturank.service.log import postgres
except ModuleNotFoundError as error:
    if not str(error.name).startswith("psycopg"):
        raise
    postgres = None  # type: ignore[assignment]

POSTGRES = ("postgresql://", "postgres://")


class Transaction(Protocol):
    """An exclusive write: all of it becomes durable, or none."""

    @property
    def counters(self) -> PendingCounters:
        """What the transaction adds to the counters beside the log."""

    @property
    def position(self) -> int:
        """The position of the last record, appended ones included."""

    @property
    def at(self) -> int:
        """The time of its records, in milliseconds since 1970."""

    def append(self, model: str, entry: Entry, impression: bytes | None = None) -> int:
        """Add an entry at the end and return its position."""

    def prefetch(self, impressions: Sequence[bytes]) -> None:
        """Read the records of these impressions in one query, for later calls of `about`."""

    def about(self, impression: bytes) -> list[Record]:
        """Return the records of one impression, in order."""

    def newest(self, model: str, kind: type) -> Record | None:
        """Return the last control record of this kind."""

    def find_model(self, model: str) -> CurrentModel | None:
        """Return the model's spec and generation; None: there is no such model."""

    def require_model(self, model: str) -> CurrentModel:
        """Return the model's spec and generation; refuse a model that does not exist, or was deleted."""

    def cut(self, positions: Sequence[int], impressions: Sequence[bytes]) -> int:
        """Delete the records at these positions and all records of these impressions; return how many."""

    def store(self, name: str, content: bytes) -> None:
        """Store bytes under a name, in place of earlier ones."""

    def stored(self, name: str) -> bytes | None:
        """Return the bytes stored under this name, also by this transaction; None: there are none."""

    def remove(self, name: str) -> None:
        """Delete the bytes of this name."""

    def remove_all(self, prefix: str) -> None:
        """Delete the bytes of all names with this prefix."""

    def remember(self, name: str, value: int) -> None:
        """Store a number under a name."""

    def remembered(self, name: str) -> int:
        """Return the number of this name; 0: there is none."""


class Log(Protocol):
    """The log. Reading needs no transaction and sees only what is committed."""

    @property
    def url(self) -> str:
        """The address under which another process of this machine opens it; it may hold a password."""

    @property
    def secret(self) -> bytes:
        """The key that signs the ids of impressions."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin an exclusive write, which is durable when the block has ended; other writers wait."""

    def tail(self) -> int:
        """Return the last position; 0: empty."""

    def read(self, after: int = 0, up_to: int | None = None, model: str | None = None) -> Iterator[Record]:
        """Yield the records after a position and up to another, in order."""

    def at(self, positions: Sequence[int]) -> list[Record]:
        """Return the records at these positions; deleted ones are left out."""

    def about(self, impressions: Sequence[bytes]) -> list[Record]:
        """Return the records of these impressions, in order."""

    def control_records(self, after: int = 0, kinds: Sequence[type] | None = None) -> list[Record]:
        """Return the records after a position that are no impressions and no feedback; `kinds`: only of these."""

    def all_of(self, model: str, kind: type, after: int = 0) -> list[Record]:
        """Return a model's control records of one kind after a position."""

    def newest(self, model: str, kind: type, n: int, up_to: int | None = None) -> list[Record]:
        """Return a model's last n control records of one kind up to a position, newest first."""

    def stored(self, name: str) -> bytes | None:
        """Return the bytes stored under this name; None: there are none."""

    def names(self, prefix: str) -> list[str]:
        """Return the names of stored bytes with this prefix."""

    def counters(
        self, spans: tuple[int, ...], since: int = 0, model: str | Sequence[str] | None = None
    ) -> list[PeriodCounters]:
        """Return the counters of periods of these lengths from a time (seconds) on, and totals.

        They are those of one model, of several, or (None) of all.
        """

    def damage(self) -> list[str]:
        """Return the faults that the database finds in its own files."""

    def is_led(self) -> bool:
        """Return whether any process learns from this log."""

    def give_back(self) -> bool:
        """Return some free space to the disk, quickly; return whether there is more."""

    def try_to_lead(self) -> bool:
        """Try to become the one process that learns, until it ends or loses its connection; return whether it is."""

    def room(self) -> int | None:
        """Return the free bytes on the log's disk; None: it is on another machine."""

    def size(self) -> int:
        """Return the size of the log in bytes."""

    def close(self) -> None:
        """Close files and connections."""


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
