"""When feedback windows close: by a clock that nobody can set, and by the log's own positions."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

GRAIN = 1.0  # seconds; impressions this close together close together, with the last of them


class Windows:
    """Remembers when each model's impressions were made; a window's length later, all up to there is closed.

    After a restart every window begins again, so that one closes late rather than early.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._made: dict[str, deque[tuple[float, int]]] = {}

    def note(self, model: str, position: int) -> None:
        """Remember that an impression of the model is at this position, where it is durable: nothing else is there."""
        with self._lock:
            made, now = self._made.setdefault(model, deque()), self._clock()
            if made and now <= made[-1][0]:
                made[-1] = (made[-1][0], max(position, made[-1][1]))
            else:
                made.append((now + GRAIN, position))

    def due(self, model: str, window: float) -> int | None:
        """Return the position up to which the model's windows are over, until that is forgotten."""
        with self._lock:
            over, found = self._clock() - window, None
            for end, position in self._made.get(model, ()):
                if end > over:
                    break
                found = position
            return found

    def forget(self, model: str, position: int) -> None:
        """Forget the impressions up to here: their windows are closed."""
        with self._lock:
            made = self._made.get(model, deque())
            while made and made[0][1] <= position:
                made.popleft()
