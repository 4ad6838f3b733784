"""Which impressions are complete: their feedback was final, or their window has closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from perturank.service.entries import Closed, Feedback, Impression, Record


@dataclass
class Waiting:
    """Feedback so far on one impression, which may come before the impression itself."""

    position: int  # of the impression, once it is known
    since: int  # of what is known first
    clicks: set[str] = field(default_factory=set)
    final: bool = False
    shown: Impression | None = None


@dataclass(frozen=True)
class Completed:
    """An impression with all its clicks; `at` is the position of the record that completed it."""

    at: int
    since: int  # the first record about it
    name: bytes
    shown: Impression
    clicks: frozenset[str]


class Tracker:
    """Follows one model's impressions through the log, from one generation to its end."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, Waiting] = {}

    @property
    def oldest(self) -> int | None:
        """The first position that is still needed; None: nothing waits."""
        return min((waiting.since for waiting in self._waiting.values()), default=None)

    def take(self, record: Record) -> list[Completed]:
        """Return what this record completes."""
        match record.entry:
            case Impression() as shown if record.impression is not None:
                waiting = self._waiting.setdefault(record.impression, Waiting(record.position, record.position))
                waiting.shown, waiting.position = shown, record.position
                return self._done(record, record.impression) if waiting.final else []
            case Feedback(effect="counted" | "early") as said if record.impression is not None:
                return self._heard(record, record.impression, said)
            case Closed(through=through):
                return self._closed(record, through)
            case _:
                return []

    def forget(self, goes: Callable[[Impression], bool]) -> None:
        """Wait no longer for the impressions that go."""
        kept = {k: w for k, w in self._waiting.items() if w.shown is None or not goes(w.shown)}
        self._waiting = kept

    def _heard(self, record: Record, name: bytes, said: Feedback) -> list[Completed]:
        if said.effect == "counted" and name not in self._waiting:
            return []  # of another generation
        waiting = self._waiting.setdefault(name, Waiting(record.position, record.position))
        waiting.clicks.update(said.clicks)
        waiting.final |= said.final
        return self._done(record, name) if waiting.final and waiting.shown else []

    def _closed(self, record: Record, through: int) -> list[Completed]:
        over = [name for name, waiting in self._waiting.items() if waiting.position <= through]
        return [done for name in over for done in self._done(record, name)]

    def _done(self, record: Record, name: bytes) -> list[Completed]:
        waiting = self._waiting.pop(name)
        if waiting.shown is None:  # the impression never came
            return []
        return [Completed(record.position, waiting.since, name, waiting.shown, frozenset(waiting.clicks))]
