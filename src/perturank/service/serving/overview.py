"""What the dashboard reads: state, alarms and recent queries, from the counters and from memory, never from records."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from perturank.__about__ import __version__
from perturank.service.log import counters, shadow
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
from perturank.service.serving.models import BegunAnew, Drift, LoadedModel
from perturank.service.serving.service import Service
from perturank.service.telemetry.prometheus import Metrics, Traffic
from perturank.wire.specification import OnDrift

SECONDS_KEPT = 0.9  # the overview is read at most once a second, for all readers
MINUTES_TOLD = 3  # of the model that is looked at; `history` has those before them
MODELS_ON_A_PAGE = 20
MOST_ALARMS = 8  # told at once: if nothing is learned, every model has one
SPANS = {
    "minutes": (MINUTE,),
    "hours": (MINUTE, HOUR),
}  # the periods to read: recent hours are still minutes
LONGEST_LAG = 30.0  # seconds
LEAST_ROOM = 200_000_000  # bytes
ANEW_SINCE = 86_400.0  # seconds for which it is told that a model has begun anew
DRIFT_SINCE = 86_400.0  # seconds for which a drift is told
REMEDIES: dict[OnDrift, str] = {
    "alarm": 'See what has changed; `"on_drift": "forget"` lets the model react by itself.',
    "forget": "The model gives what it had seen before a tenth of its weight, and explores more.",
    "challenger": "A fresh model stands beside it: show lists of the live test, and promote the winner.",
}
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


class View(NamedTuple):
    """What a reader looks at: a page of the models whose names contain a text, and one model; None: the first."""

    filter: str = ""
    page: int = 1
    model: str | None = None


@dataclass(frozen=True)
class Present:
    """The present state, as it is kept for a second: what all readers are told, and the models that they looked at."""

    until: float  # by the monotonic clock
    told: dict[str, Any]
    alarms: list[Alarm]
    models: dict[str, LoadedModel]
    lags: dict[str, float]
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    details: dict[str, dict[str, Any]] = field(default_factory=dict)


class Overview:
    """One serving process as seen from outside."""

    def __init__(self, service: Service, traffic: Traffic) -> None:
        self.service, self._traffic, self._lags = service, traffic, Lags()
        self.failing: Callable[[], list[str]] = list  # the failing background tasks: set by the application
        self.pages: Sequence[str] = ()  # paths of added pages, likewise
        self._began = int(time.time() * 1000)
        self._lock = threading.Lock()
        self._kept: Present | None = None

    def prometheus(self, metrics: Metrics) -> bytes:
        """Return the metrics as text."""
        present = self.present()
        models = [_about(loaded, present.lags[name]) for name, loaded in present.models.items()]
        told = {"models": models, "alarms": [alarm._asdict() for alarm in present.alarms]}
        return metrics.page(self.service.log, told, self.totals())

    def present(self) -> Present:
        """Return the present state, read at most once a second."""
        with self._lock:
            if self._kept is None or time.monotonic() > self._kept.until:
                self._kept = self.read()
            return self._kept

    def now(self, view: View | None = None) -> dict[str, Any]:
        """Return the present state as the dashboard is told it: a page of the models, and one of them in detail."""
        present, view = self.present(), view or View()
        names = [name for name in present.models if view.filter.casefold() in name.casefold()]
        n_pages = max(1, -(-len(names) // MODELS_ON_A_PAGE))
        page = min(view.page, n_pages)
        chosen = view.model if view.model in present.models else next(iter(present.models), None)
        shown = names[(page - 1) * MODELS_ON_A_PAGE : page * MODELS_ON_A_PAGE]
        with self._lock:  # what one reader has asked for, the others find
            self._read_rows(present, [*shown, *([] if chosen is None else [chosen])])
            if chosen is not None and chosen not in present.details:
                present.details[chosen] = present.rows[chosen] | self._detail(chosen)
        return present.told | {
            "models": [present.rows[name] for name in shown],
            "pages": {"page": page, "of": n_pages, "found": len(names), "models": len(present.models)},
            "chosen": None if chosen is None else present.details[chosen],
        }

    def read(self) -> Present:
        """Read the present state."""
        service, log = self.service, self.service.log
        loaded, is_led, room = service.models.all(), _or_none(log.is_led), log.room()
        names = [each.name for each in loaded]
        rows: list[PeriodCounters] = _or_none(lambda: log.counters((PROGRESS,), model=names)) or []
        progress = {row.model: row.amounts for row in rows}
        lags = {name: self._lags.of(name, LearningProgress.of(progress.get(name, {}))) for name in names}
        wrong = alarms(
            is_led=is_led,
            room=room,
            seconds_since_full=self._traffic.seconds_since_full(),
            n_failed=self._traffic.n_failed(),
            # Where batches have a fixed size, clicks wait on purpose.
            lags={each.name: lags[each.name] for each in loaded if each.spec.batch is None},
            faults={each.name: each.fault for each in loaded if each.fault is not None},
            begun_anew={each.name: each.begun_anew for each in loaded if each.begun_anew is not None},
            drifts={each.name: each.drift for each in loaded if each.drift is not None},
            failing=self.failing(),
        )
        found = list(wrong)
        told = {
            "at": int(time.time() * 1000),
            "process": {"version": __version__, "pid": os.getpid(), "since": self._began, "pages": list(self.pages)},
            "compiling": sum(1 for _ in service.models.uncompiled()) if service.settings.compile_first else 0,
            "alarms": [alarm._asdict() for alarm in found[:MOST_ALARMS]],
            "more_alarms": max(0, len(found) - MOST_ALARMS),
            "traffic": self._traffic.now(),
            "log": {"bytes": _or_none(log.size), "position": _or_none(log.tail), "room": room, "is_led": is_led},
        }
        models = dict(zip(names, loaded, strict=True))
        return Present(time.monotonic() + SECONDS_KEPT, told, found, models, lags)

    def _read_rows(self, present: Present, names: Sequence[str]) -> None:
        """Read what the table of models tells of these."""
        todo = [name for name in names if name not in present.rows]
        rows: list[PeriodCounters] = _or_none(lambda: self.service.log.counters((TOTAL,), model=todo)) or []
        totals = {row.model: row.amounts for row in rows}
        for name in todo:
            about = _about(present.models[name], present.lags[name])
            present.rows[name] = about | {"total": counters.summary(totals.get(name, {}))}

    def _detail(self, name: str) -> dict[str, Any]:
        """Read what is told of one model beside its row."""
        since = int(time.time()) - (MINUTES_TOLD - 1) * MINUTE
        rows: list[PeriodCounters] = _or_none(lambda: self.service.log.counters((TOTAL, MINUTE), since, name)) or []
        total = next((row.amounts for row in rows if row.span == TOTAL), {})
        # If the clock was set back, hours of minutes are newer than `since`: the log's times never go back.
        minutes = [row for row in rows if row.span == MINUTE][-MINUTES_TOLD:]
        return {"by_place": counters.by_place(total), "minutes": _buckets(minutes, total)}

    def history(self, model: str, span: str) -> list[dict[str, Any]]:
        """Return the model's minutes or hours, oldest first; the last one is not over."""
        rows = self.service.log.counters((TOTAL, *SPANS[span]), model=model)
        total = next((row.amounts for row in rows if row.span == TOTAL), {})
        periods = [row for row in rows if row.span != TOTAL]
        return _buckets(periods if span == "minutes" else by_hour(periods), total)

    def totals(self) -> dict[str, Amounts]:
        """Return every model's counters since it was created."""
        names = [loaded.name for loaded in self.service.models.all()]
        return {row.model: row.amounts for row in self.service.log.counters((TOTAL,), model=names)}


def _about(loaded: LoadedModel, lag: float) -> dict[str, Any]:
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
        "drift": None if loaded.drift is None else loaded.drift._asdict(),
        "learned": loaded.published[newest].learned if newest else 0,
        "published_at": loaded.served_at,
        "newest_at": loaded.published_at.get(newest),
        "lag": lag,
    }


def _or_none(ask: Callable[[], Any]) -> Any:
    """Return an answer of the log, or None while the log cannot be read."""
    try:
        return ask()
    except Refused:
        return None


def _buckets(rows: Sequence[PeriodCounters], total: Amounts) -> list[dict[str, Any]]:
    """Return periods up to now; what shadow mode says is of all lists up to the end of each."""
    known = shadow.standings([row.amounts for row in rows], total)
    found = zip(rows, known, strict=True)
    return [{"start": row.start * 1000, **counters.summary(row.amounts), "shadow": each} for row, each in found]


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
    drifts: Mapping[str, Drift],
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
    for model, drift in drifts.items():
        if time.time() * 1000 - drift.at < DRIFT_SINCE * 1000:
            says = (
                f"People seem to want something else: over {drift.lists} lists the reciprocal rank of the first click "
                f"is {drift.after:.2f}, and was {drift.before:.2f}."
            )
            yield Alarm("drift", says, REMEDIES[drift.reaction], model)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
