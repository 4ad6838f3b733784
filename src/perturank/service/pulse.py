"""Throughput and latency of this process over the last two minutes, in memory: a slot a second, a histogram a slot."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

SLOTS = 120
SECONDS_OF_LATENCY = 60
SHORTEST = 1e-4  # the first class ends here; each is a quarter of an octave wide, the last is open
CLASSES = 64
KINDS = {"/v1/models/{model}/rank": "rank", "/v1/models/{model}/feedback": "feedback"}
FULL = 507


class Slot:
    """One second of one kind of request."""

    __slots__ = ("classes", "failed", "n", "second")

    def __init__(self) -> None:
        self.second, self.n, self.failed, self.classes = -1, 0, 0, [0] * CLASSES

    def restart(self, second: int) -> None:
        """Begin another second."""
        self.second, self.n, self.failed, self.classes = second, 0, 0, [0] * CLASSES


class Pulse:
    """Counts requests as they are answered; one thread notes, any may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots = {kind: [Slot() for _ in range(SLOTS)] for kind in (*KINDS.values(), "other")}
        self._full: float | None = None

    def note(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        second = int(self._clock())
        slot = self._slots[KINDS.get(path, "other")][second % SLOTS]
        if slot.second != second:
            slot.restart(second)
        slot.n += 1
        if status >= 500 and path.startswith("/v1/"):  # a service that says it is not ready yet has not failed
            slot.failed += 1
            self._full = self._clock() if status == FULL else self._full
        slot.classes[_class(seconds)] += 1

    def seconds_since_full(self) -> float | None:
        """Return how long ago a request found the log full; None: never, or it has been written to since."""
        return None if self._full is None else self._clock() - self._full

    def failed(self) -> int:
        """Return how many requests the service failed to answer in the last minute."""
        return sum(slot.failed for kind in self._slots for slot in self._last(kind, SECONDS_OF_LATENCY))

    def now(self) -> dict[str, Any]:
        """Return, of each kind, requests in each of the last seconds, oldest first, and quantiles of a minute."""
        return {kind: self._about(kind) for kind in KINDS.values()}

    def _about(self, kind: str) -> dict[str, Any]:
        end = int(self._clock())  # this second is not over
        held = {slot.second: slot.n for slot in self._slots[kind]}
        classes = [
            sum(column) for column in zip(*(slot.classes for slot in self._last(kind, SECONDS_OF_LATENCY)), strict=True)
        ]
        return {
            "per_second": [held.get(second, 0) for second in range(end - SLOTS + 1, end)],
            "p50": _quantile(classes, 0.5),
            "p99": _quantile(classes, 0.99),
        }

    def _last(self, kind: str, seconds: int) -> list[Slot]:
        since = int(self._clock()) - seconds
        return [slot for slot in self._slots[kind] if slot.second >= since]


def _class(seconds: float) -> int:
    return 0 if seconds <= SHORTEST else min(CLASSES - 1, 1 + int(4 * math.log2(seconds / SHORTEST)))


def _quantile(classes: list[int], q: float) -> float | None:
    """Return the upper end of the class in which the quantile lies, in seconds: at most 19 % too much."""
    left = q * sum(classes)
    for number, n in enumerate(classes):
        left -= n
        if n and left <= 0:
            return SHORTEST * 2 ** (number / 4)
    return None
