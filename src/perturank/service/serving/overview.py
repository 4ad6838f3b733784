"""What the dashboard reads: state, alarms and recent queries, from the counters and from memory, never from records."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from perturank.__about__ import __version__
from perturank.service.log import counters
from perturank.service.log.counters import (
    HOUR,
    MINUTE,
    PROGRESS,
    TOTAL,
    Amounts,
    LearningProgress,
    PeriodCounters,
    by_hour,
)
from perturank.service.log.refusals import Refused
from perturank.service.serving.models import BegunAnew, LoadedModel
from perturank.service.serving.service import Service
from perturank.service.telemetry.prometheus import Metrics, Traffic

SECONDS_KEPT = 0.9  # the overview is read at most once a second, for all readers
MINUTES_TOLD = 3  # of each model; `history` has those before them
SPANS = {
    "minutes": (MINUTE,),
    "hours": (MINUTE, HOUR),
}  # the periods to read: recent hours are still minutes
LONGEST_LAG = 30.0  # seconds
LEAST_ROOM = 200_000_000  # bytes
ANEW_SINCE = 86_400.0  # seconds for which it is told that a model has begun anew
FULL_SINCE = 30.0  # seconds for which the alarm of a full log stays


class Lags:
    """The learning lags of models, by the log's times and by this process's monotonic clock.

    While the system clock is behind the log, the log's times stand still and would show no lag.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, float]] = {}  # how far learning was, and since when it has been so

    def of(self, model: str, progress: LearningProgress) -> float:
        """Return for how many seconds clicks have waited to be learned, at least since a call first saw them wait."""
        if progress.completed <= progress.learned:
            self._waiting.pop(model, None)
            return 0.0
        now = time.monotonic()
        learned, since = self._waiting.get(model, (-1, now))
        since = since if learned == progress.learned else now
        self._waiting[model] = progress.learned, since
        return max(progress.lag(time.time_ns() // 1_000_000), now - since)


class Overview:
    """One serving process as seen from outside."""

    def __init__(self, service: Service, traffic: Traffic) -> None:
        self.service, self._traffic, self._lags = service, traffic, Lags()
        self.failing: Callable[[], list[str]] = list  # the failing background tasks: set by the application
        self.pages: Sequence[str] = ()  # paths of added pages, likewise
        self._began = int(time.time() * 1000)
        self._lock = threading.Lock()
        self._kept: tuple[float, dict[str, Any]] | None = None

    def prometheus(self, metrics: Metrics) -> bytes:
        """Return the metrics as text."""
        return metrics.page(self.service.log, self.now(), self.totals())

    def now(self) -> dict[str, Any]:
        """Return the present state, read at most once a second."""
        with self._lock:
            now = time.monotonic()
            if self._kept is None or now - self._kept[0] > SECONDS_KEPT:
                self._kept = (now, self.read())
            return self._kept[1]

    def read(self) -> dict[str, Any]:
        """Read the present state."""
        service, log = self.service, self.service.log
        loaded, is_led, room = service.models.all(), _or_none(log.is_led), log.room()
        models = [self._model(each) for each in loaded]
        wrong = alarms(
            is_led=is_led,
            room=room,
            seconds_since_full=self._traffic.seconds_since_full(),
            n_failed=self._traffic.n_failed(),
            # Where batches have a fixed size, clicks wait on purpose.
            lags={e.name: m["lag"] for e, m in zip(loaded, models, strict=True) if e.spec.batch is None},
            faults={each.name: each.fault for each in loaded if each.fault is not None},
            begun_anew={each.name: each.begun_anew for each in loaded if each.begun_anew is not None},
            failing=self.failing(),
        )
        return {
            "at": int(time.time() * 1000),
            "process": {"version": __version__, "pid": os.getpid(), "since": self._began, "pages": list(self.pages)},
            "compiling": sum(1 for _ in service.models.uncompiled()) if service.settings.compile_first else 0,
            "alarms": [alarm._asdict() for alarm in wrong],
            "traffic": self._traffic.now(),
            "log": {"bytes": _or_none(log.size), "position": _or_none(log.tail), "room": room, "is_led": is_led},
            "models": models,
        }

    def _model(self, loaded: LoadedModel) -> dict[str, Any]:
        since = int(time.time()) - (MINUTES_TOLD - 1) * MINUTE
        spans = (PROGRESS, TOTAL, MINUTE)
        rows: list[PeriodCounters] = _or_none(lambda: self.service.log.counters(spans, since, loaded.name)) or []
        progress, total = (next((row.amounts for row in rows if row.span == span), {}) for span in spans[:2])
        newest = next(reversed(loaded.published), 0)  # as the log has them: the last is the newest
        return {
            "model": loaded.name,
            "ranker": loaded.spec.ranker,
            "n_features": loaded.spec.n_features,
            "places": loaded.spec.places,
            "version": loaded.version,
            "newest": newest,
            "pinned": loaded.pinned,
            "begun_anew": None if loaded.begun_anew is None else loaded.begun_anew._asdict(),
            "learned": loaded.published[newest].learned if newest else 0,
            "published_at": loaded.published_at.get(loaded.version),
            "newest_at": loaded.published_at.get(newest),
            "lag": self._lags.of(loaded.name, LearningProgress.of(progress)),
            "total": counters.summary(total) | {"by_place": counters.by_place(total)},
            # If the clock was set back, hours of minutes are newer than `since`: the log's times never go back.
            "minutes": [_bucket(row) for row in rows if row.span == MINUTE][-MINUTES_TOLD:],
        }

    def history(self, model: str, span: str) -> list[dict[str, Any]]:
        """Return the model's minutes or hours, oldest first; the last one is not over."""
        rows = self.service.log.counters(SPANS[span], model=model)
        return [_bucket(row) for row in (rows if span == "minutes" else by_hour(rows))]

    def totals(self) -> dict[str, Amounts]:
        """Return every model's counters since it was created."""
        log, models = self.service.log, self.service.models.all()
        return {row.model: row.amounts for loaded in models for row in log.counters((TOTAL,), model=loaded.name)}


def _or_none(ask: Callable[[], Any]) -> Any:
    """Return an answer of the log, or None while the log cannot be read."""
    try:
        return ask()
    except Refused:
        return None


def _bucket(row: PeriodCounters) -> dict[str, Any]:
    return {"start": row.start * 1000, **counters.summary(row.amounts)}


class Alarm(NamedTuple):
    """An alarm: its name for programs, a sentence, and what to do."""

    name: str
    says: str
    remedy: str
    model: str | None = None


def alarms(
    *,
    is_led: bool | None,  # None: the log could not be asked
    room: int | None,
    seconds_since_full: float | None,
    n_failed: int,
    failing: Iterable[str],  # beside the answers, as /readyz says
    lags: Mapping[str, float],
    faults: Mapping[str, str],
    begun_anew: Mapping[str, BegunAnew],
) -> Iterator[Alarm]:
    """Yield everything that is wrong."""
    if is_led is None:
        yield Alarm("log away", "The log cannot be read.", "Check that the database runs and can be reached.")
    if is_led is False:
        says = "No learner is at work: clicks are kept and not learned."
        yield Alarm("no learner", says, "See the service's log lines, or run `perturank learn`.")
    if seconds_since_full is not None and seconds_since_full < FULL_SINCE:
        yield Alarm("log full", "The log cannot be written.", "Make room on its disk.")
    if room is not None and room < LEAST_ROOM:
        says = f"{room // 1_000_000} MB are left on the log's disk."
        yield Alarm("little room", says, "Make room, or shorten what the log keeps.")
    for each in failing:
        yield Alarm("failing", _sentence(each), "It is tried again; the log lines say more.")
    if n_failed:
        says = f"{n_failed} requests of the last minute could not be answered."
        yield Alarm("failures", says, "The service's log lines say why.")
    for model, lag in lags.items():
        if lag > LONGEST_LAG:
            says = f"Clicks have waited for {lag:.0f} s to be learned."
            yield Alarm("lag", says, "See whether the learner works.", model)
    for model, fault in faults.items():
        yield Alarm("damaged version", _sentence(fault), "An older version serves meanwhile.", model)
    for model, before in begun_anew.items():
        if time.time() * 1000 - before.at < ANEW_SINCE * 1000:
            says = f"It has begun to learn anew: version {before.version} had learned {before.learned} impressions."
            remedy = f'To go back: POST /v1/models/{model}/restore {{"generation": {before.generation}}}.'
            yield Alarm("begun anew", says, remedy, model)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
