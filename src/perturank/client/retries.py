"""When a request is sent again: for how long, how soon, and after which failures."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Generic, TypeVar

import httpx

from .calls import NOT_NOW, STRANGE, Call, NoAnswer, decoded

T = TypeVar("T")
Outcome = httpx.Response | httpx.TransportError

LOST = (502, 504)  # said by something on the way: perhaps it was done
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
PAUSE_OF_THE_REST = 1.0  # of a batch of which a part is refused for now


@dataclass(frozen=True)
class RetryLimits:
    """Seconds that one attempt may take, seconds after which none is begun, and how many there may be beside the first.

    Ten seconds is what another server or learner needs to take over; a first list may take longer to be compiled.
    """

    timeout: float = 30.0
    patience: float = 15.0
    retries: int | None = None  # none: as many as there is patience for


class Attempts(Generic[T]):
    """All attempts at one call."""

    def __init__(self, call: Call[T], limits: RetryLimits, where: str) -> None:
        self._call, self._limits, self._where = call, limits, where
        self._began, self._n = monotonic(), 0

    def pause(self, outcome: Outcome) -> float | None:
        """Return how long to wait before the next attempt; None: there is none, take `answer`."""
        self._n += 1
        least = self._least(outcome)
        if least is None or (self._limits.retries is not None and self._n > self._limits.retries):
            return None
        longest = min(FIRST_PAUSE * 2 ** (self._n - 1), LONGEST_PAUSE)
        pause = least + random.uniform(longest / 2, longest)  # so that not all who failed come back together
        return pause if monotonic() + pause <= self._began + self._limits.patience else None

    def answer(self, outcome: Outcome) -> T:
        """Return what came of it; a refusal, or that no answer came, is raised."""
        if isinstance(outcome, httpx.Response):
            return self._call.answer(outcome, self._where)
        raise NoAnswer(outcome, self._where, self._n, monotonic() - self._began) from outcome

    def _least(self, outcome: Outcome) -> float | None:
        """Return the seconds that must pass before it may help to send it again; None: it must not be."""
        if isinstance(outcome, httpx.TransportError):
            if isinstance(outcome, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
                return None  # it will never be sent
            unsent = isinstance(outcome, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            return 0.0 if unsent or self._call.harmless else None
        if self._call.is_answer(outcome):
            return PAUSE_OF_THE_REST if self._is_partial(outcome) else None
        again = outcome.status_code in NOT_NOW or (outcome.status_code in LOST and self._call.harmless)
        return seconds_asked_for(outcome.headers.get("retry-after", "")) if again else None

    def _is_partial(self, response: httpx.Response) -> bool:
        try:
            return self._call.is_partial(decoded(response))
        except STRANGE:  # `answer` says what is wrong with it
            return False


def seconds_asked_for(retry_after: str) -> float:
    """Return the seconds of a Retry-After header, which may also be a date; 0 where it asks for nothing.

    >>> seconds_asked_for("2"), seconds_asked_for(""), seconds_asked_for("Thu, 01 Jan 1970 00:00:00 GMT")
    (2.0, 0.0, 0.0)
    """
    if retry_after.strip().isascii() and retry_after.strip().isdigit():
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
