"""Versions as the log tells of them: found by number or listed page by page, and never all of them at once."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from perturank.service.entries import Snapshot
from perturank.service.log import Log

LISTED = range(1, 1001)  # how many may be asked for at once
NUMBERS = range(1, 2**53)  # of versions, as JSON can say them


class Published(NamedTuple):
    """A version in its place."""

    position: int
    at: int  # milliseconds since 1970
    snapshot: Snapshot


def newest(log: Log, model: str, n: int, through: int | None = None) -> list[Published]:
    """Return a model's last versions up to a position, the newest first."""
    found = log.newest(model, Snapshot, n, through)
    return [Published(each.position, each.at, each.entry) for each in found if isinstance(each.entry, Snapshot)]


def found(log: Log, model: str, version: int) -> Published | None:
    """Return the version of this number; None: there is none."""
    at = newest(log, model, 1, _position(log, model, version))
    return at[0] if at and at[0].snapshot.version == version else None


def listed(log: Log, model: str, generation: int, n: int, before: int | None = None) -> list[Published]:
    """Return the last n versions of a generation that come before this number, the newest first."""
    through = None if before is None else _position(log, model, before) - 1
    return [each for each in newest(log, model, n, through) if each.snapshot.generation == generation]


def _position(log: Log, model: str, version: int) -> int:
    """Return the first position up to which there is this version or a later one; numbers grow with positions."""

    def last(position: int) -> int:
        at = newest(log, model, 1, position)
        return at[0].snapshot.version if at else 0

    return bisect_left(range(log.tail() + 1), version, key=last)
