"""Throughput and latency of this process over the last two minutes: prometheus_client keeps no sliding windows."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

SECONDS_KEPT = 120
SECONDS_OF_LATENCY = 60
SHORTEST = 1e-4
KINDS = {"/v1/models/{model}/rank": "rank", "/v1/models/{model}/feedback": "feedback"}
FAILED, FULL = "failed", 507


class Traffic:
    """Counts requests as they are answered; one thread notes, any may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Of each second with requests, how many took at most 2^(n/4) seconds and longer than 2^((n-1)/4), by n.
        self._seconds = {
            kind: deque[tuple[int, Counter[int]]](maxlen=SECONDS_KEPT) for kind in (*KINDS.values(), FAILED)
        }
        self._full: float | None = None

    def note(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        if path in KINDS:
            self._count(KINDS[path], seconds)
        if status >= 500 and path.startswith("/v1/"):  # a service that says it is not ready yet has not failed
            self._count(FAILED, seconds)
            self._full = self._clock() if status == FULL else self._full

    def _count(self, kind: str, seconds: float) -> None:
        now, held = int(self._clock()), self._seconds[kind]
        if not held or held[-1][0] != now:
            held.append((now, Counter()))
        held[-1][1][math.ceil(4 * math.log2(max(seconds, SHORTEST)))] += 1

    def seconds_since_full(self) -> float | None:
        """Return how long ago a request found the log full; None: never."""
        return None if self._full is None else self._clock() - self._full

    def n_failed(self) -> int:
        """Return how many requests the service failed to answer in the last minute."""
        return self._last_minute(FAILED).total()

    def now(self) -> dict[str, Any]:
        """Return, of each kind, requests in each of the last seconds, oldest first, and quantiles of a minute."""
        end = int(self._clock())  # this second is not over
        found = {}
        for kind in KINDS.values():
            held, minute = {second: n.total() for second, n in list(self._seconds[kind])}, self._last_minute(kind)
            per_second = [held.get(second, 0) for second in range(end - SECONDS_KEPT + 1, end)]
            found[kind] = {"per_second": per_second, "p50": _quantile(minute, 0.5), "p99": _quantile(minute, 0.99)}
        return found

    def _last_minute(self, kind: str) -> Counter[int]:
        since = int(self._clock()) - SECONDS_OF_LATENCY
        counts = [n.copy() for second, n in list(self._seconds[kind]) if second >= since]  # the other thread goes on
        return sum(counts, Counter())


def _quantile(counts: Counter[int], q: float) -> float | None:
    """Return the upper end of the class in which the quantile lies, in seconds: at most 19 % too much."""
    left = q * counts.total()
    for number, n in sorted(counts.items()):
        left -= n
        if left <= 0:
            return 2 ** (number / 4)
    return None
