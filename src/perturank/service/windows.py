"""When feedback windows close: by a clock that nobody can set, and by the log's own positions."""

from __future__ import annotations

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
        self._made: dict[str, deque[tuple[float, int]]] = {}

    def note(self, model: str, position: int) -> None:
        """Remember that an impression of the model is at this position."""
        made, now = self._made.setdefault(model, deque()), self._clock()
        if made and now <= made[-1][0]:
            made[-1] = (made[-1][0], max(position, made[-1][1]))
        else:
            made.append((now + GRAIN, position))

    def due(self, model: str, window: float) -> int | None:
        """Return the position up to which the model's windows are over, once."""
        made, now, found = self._made.get(model, deque()), self._clock(), None
        while made and made[0][0] + window <= now:
            found = made.popleft()[1]
        return found
