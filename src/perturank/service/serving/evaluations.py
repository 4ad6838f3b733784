"""Evaluations for whoever asks over HTTP: each in a child process, one at a time, kept for a while."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

from perturank.catalogue import rankers
from perturank.counterfactual import REWARDS, Reward
from perturank.service.log.refusals import NotReady, Refused
from perturank.service.serving.models import child_output

SECONDS_KEPT = 600.0
MOST_KEPT = 64
OWN = "own"


class Asked(NamedTuple):
    """An evaluation that is asked for."""

    model: str
    against: str
    reward: Reward
    places: int | None
    after: int

    @classmethod
    def of(cls, model: str, against: str | None, reward: str, places: int | None, after: int) -> Asked:
        """Return what is asked for; refuse files of the server, and what there is not."""
        if against is None or not (against == OWN or against.isdecimal() or against in rankers()):
            raise Refused(f"against is {str(against)[:40]!r}", "say own, the number of a version, or a ranker's name")
        if reward not in REWARDS:
            raise Refused(f"reward is {reward[:40]!r}", f"say one of {', '.join(get_args(Reward))}")
        return cls(model, against, reward, places, after)

    @property
    def words(self) -> list[str]:
        """The command that answers it."""
        given = [f"--model={self.model}", f"--against={self.against}", f"--reward={self.reward}"]
        places = [] if self.places is None else [f"--places={self.places}"]
        return ["evaluate", *given, *places, f"--after={self.after}", "--json"]


class Evaluations:
    """Runs `perturank evaluate` in a child process, and keeps the last answers."""

    def __init__(self, log: str, stopping: threading.Event, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._stopping, self._clock = log, stopping, clock
        self._lock = threading.Lock()
        self._kept: dict[Asked, tuple[float, dict[str, Any]]] = {}

    def make(self, asked: Asked) -> dict[str, Any]:
        """Return an evaluation, which may be some minutes old."""
        kept = self._kept.get(asked)
        if kept is not None and self._clock() - kept[0] < SECONDS_KEPT:
            return kept[1]
        if not self._lock.acquire(blocking=False):
            raise NotReady("another evaluation is being made", "ask again when that is done")
        try:
            found: dict[str, Any] = json.loads(child_output(asked.words, "the evaluation", self._log, self._stopping))
            self._kept.pop(asked, None)
            self._kept[asked] = (self._clock(), found)
            for oldest in list(self._kept)[:-MOST_KEPT]:
                del self._kept[oldest]
            return found
        finally:
            self._lock.release()
