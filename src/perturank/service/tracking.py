"""Which impressions are complete: their feedback was final, or their window has closed.

Of lists that wait, all that decides is held; what they showed is read from the log when it is learned.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perturank.service.entries import Closed, Feedback, Impression, Record
from perturank.wire.specification import Mode


class Waiting(msgspec.Struct, array_like=True, gc=False):
    """Feedback so far on one impression, which may come before the impression itself.

    There may be half a million; nothing in them leads back to them, so that no collector need look.
    """

    position: int  # of the impression, once it is known
    since: int  # of what is known first
    clicks: frozenset[str] = frozenset()
    final: bool = False
    mode: Mode | None = None  # None: the impression is not known yet
    source: bytes | None = None  # sealed


class Completed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An impression with all its clicks; `at` is the position of the record that completed it."""

    at: int
    since: int  # the first record about it
    position: int  # of the impression itself
    name: bytes
    mode: Mode
    source: bytes | None  # sealed; None: nobody in particular
    clicks: frozenset[str]


class Tracker:
    """Follows one model's impressions through the log, from one generation to its end.

    What waits stands in the order in which it was first heard of.
    """

    def __init__(self, seal: Callable[[str], bytes]) -> None:
        self._seal = seal
        self.waiting: dict[bytes, Waiting] = {}  # by the impression's name

    @property
    def oldest(self) -> int | None:
        """The first position that is still needed; None: nothing waits."""
        return next((waiting.since for waiting in self.waiting.values()), None)

    def take(self, record: Record) -> list[Completed]:
        """Return what this record completes."""
        match record.entry:
            case Impression() as shown if record.impression is not None:
                waiting = self.waiting.setdefault(record.impression, Waiting(record.position, record.position))
                waiting.position, waiting.mode = record.position, shown.mode
                waiting.source = None if shown.source is None else self._seal(shown.source)
                return self._done(record, record.impression) if waiting.final else []
            case Feedback(effect="counted" | "early") as said if record.impression is not None:
                return self._heard(record, record.impression, said)
            case Closed(through=through):
                return self._closed(record, through)
            case _:
                return []

    def forget(self, source: bytes) -> None:
        """Wait no longer for the impressions of a source."""
        self.waiting = {name: waiting for name, waiting in self.waiting.items() if waiting.source != source}

    def _heard(self, record: Record, name: bytes, said: Feedback) -> list[Completed]:
        if said.effect == "counted" and name not in self.waiting:
            return []  # of another generation
        waiting = self.waiting.setdefault(name, Waiting(record.position, record.position))
        waiting.clicks = waiting.clicks.union(said.clicks)
        waiting.final |= said.final
        return self._done(record, name) if waiting.final and waiting.mode is not None else []

    def _closed(self, record: Record, through: int) -> list[Completed]:
        over = []
        for name, waiting in self.waiting.items():
            if waiting.since > through:  # and so are all behind it
                break
            if waiting.position <= through:
                over.append(name)
        return [done for name in over for done in self._done(record, name)]

    def _done(self, record: Record, name: bytes) -> list[Completed]:
        waiting = self.waiting.pop(name)
        if waiting.mode is None:  # the impression never came
            return []
        about = waiting.since, waiting.position, name, waiting.mode, waiting.source
        return [Completed(record.position, *about, waiting.clicks)]
