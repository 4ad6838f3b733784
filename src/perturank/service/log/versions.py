"""Versions as the log tells of them: found by number or listed page by page, and never all of them at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from perturank.service.log import Log
from perturank.service.log.records import Snapshot

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


def last(log: Log, model: str, holds: Callable[[Published], bool]) -> Published | None:
    """Return the last version for which something holds, as it does for all before it; None: for none."""

    def is_past(position: int) -> bool:
        at = newest(log, model, 1, position)
        return bool(at) and not holds(at[0])

    through = bisect_left(range(log.tail() + 1), True, key=is_past) - 1
    return next(iter(newest(log, model, 1, through)), None)


def found(log: Log, model: str, version: int) -> Published | None:
    """Return the version of this number; None: there is none."""
    at = last(log, model, lambda each: each.snapshot.version <= version)  # numbers grow with positions
    return at if at is not None and at.snapshot.version == version else None


def listed(log: Log, model: str, generation: int, n: int, before: int | None = None) -> list[Published]:
    """Return the last n versions of a generation that come before this number, the newest first."""
    through = None
    if before is not None:
        at = last(log, model, lambda each: each.snapshot.version < before)
        through = 0 if at is None else at.position
    return [each for each in newest(log, model, n, through) if each.snapshot.generation == generation]
