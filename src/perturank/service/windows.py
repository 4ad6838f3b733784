"""When feedback windows close: by a clock that nobody can set, and by the log's own positions."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable


class Windows:
    """Remembers where the log ended when; a window's length later, all up to there is closed.

    After a restart every window begins again, so that one closes late rather than early.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: deque[tuple[float, int]] = deque()
        self._closed: dict[str, int] = {}

    def note(self, tail: int) -> None:
        """Remember that the log ends here now."""
        if not self._ends or self._ends[-1][1] < tail:
            self._ends.append((self._clock(), tail))

    def due(self, model: str, window: float) -> int | None:
        """Return the position up to which this model's windows are over, if that has not been said before."""
        now = self._clock()
        over = [tail for at, tail in self._ends if at + window <= now]
        if not over or over[-1] <= self._closed.get(model, 0):
            return None
        self._closed[model] = over[-1]
        return over[-1]

    def forget(self, longest: float) -> None:
        """Forget what is older than the longest window needs; the newest that is over stays."""
        now = self._clock()
        while len(self._ends) > 1 and self._ends[1][0] + longest <= now:
            self._ends.popleft()
