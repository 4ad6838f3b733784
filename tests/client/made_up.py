"""Transports in place of a network: the real application, and a server that fails in every way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

Outcome = int | httpx.Response | Exception
DOCUMENTS = [{"id": "a", "features": [0.1, 2.0]}, {"id": "b", "features": [0.3, 1.0]}]
SHOWN = {"impression": "x", "ranking": [{"id": "a", "certain": True}], "propensity": None, "version": 3}
REFUSED = {"title": "no", "type": "urn:perturank:x", "detail": "say please", "instance": "r1"}


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass at once."""
        self.now += seconds
        self.pauses.append(seconds)

    def monotonic(self) -> float:
        """Return the time."""
        return self.now


class Flaky:
    """Answers so, one outcome after another, the last for ever; keeps what it was asked."""

    def __init__(self, *outcomes: Outcome, good: Any = SHOWN) -> None:
        self._outcomes, self._good = list(outcomes), good
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, httpx.Response):
            return outcome
        return httpx.Response(outcome, json=self._good if outcome == 200 else REFUSED)

    @property
    def transport(self) -> httpx.MockTransport:
        """What a client takes."""
        return httpx.MockTransport(self)


Answer = Callable[[httpx.Request], httpx.Response]
