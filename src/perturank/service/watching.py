"""What the dashboard and Prometheus are told: read from running sums and from memory, never from the log's entries."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from perturank.__about__ import __version__
from perturank.service import counting
from perturank.service.alarms import Alarm, Facts, alarms
from perturank.service.hosting import Hosted
from perturank.service.log.sums import HOUR, MINUTE, TOTAL, Amounts, Body, Lags, Progress, Sums, by_hour
from perturank.service.pulse import Pulse
from perturank.service.refusals import Refused
from perturank.service.service import Service

SECONDS_KEPT = 0.9  # however many look, it is found out once a second
MINUTES_TOLD = 3  # of each model in a moment, which is sent once a second; what was before them is history
SPANS = {"minutes": (MINUTE,), "hours": (MINUTE, HOUR)}  # the rows that are read for each


class Watch:
    """One serving process as seen from outside."""

    def __init__(self, service: Service, pulse: Pulse) -> None:
        self.service, self.pulse, self.lags = service, pulse, Lags()
        self.failing: Callable[[], list[str]] = list  # what fails beside the answers: set by who knows it
        self.pages: Sequence[str] = ()  # addresses of others beside the dashboard, likewise
        self._began = time.time()
        self._lock = threading.Lock()
        self._kept: tuple[float, dict[str, Any]] | None = None

    def overview(self) -> dict[str, Any]:
        """Return everything of this moment; at most once a second anew."""
        with self._lock:
            now = time.monotonic()
            if self._kept is None or now - self._kept[0] > SECONDS_KEPT:
                self._kept = (now, self._overview())
            return self._kept[1]

    def _overview(self) -> dict[str, Any]:
        now, log = int(time.time() * 1000), self.service.log
        is_led = _or_none(log.is_led)
        rows = _or_none(lambda: log.sums((TOTAL, MINUTE), now // 1000 - (MINUTES_TOLD - 1) * MINUTE)) or []
        models = [
            _model(held, [row for row in rows if row.model == held.name], self.lags) for held in self.service.host.all()
        ]
        return {
            "at": now,
            "process": self._process(),
            "compiling": self._n_uncompiled(),
            "alarms": [msgspec.to_builtins(alarm) for alarm in self._alarms(is_led, models)],
            "traffic": self.pulse.now(),
            "log": {"bytes": _or_none(log.size), "position": _or_none(log.tail), "room": log.room(), "is_led": is_led},
            "models": models,
        }

    def _process(self) -> dict[str, Any]:
        since = int(self._began * 1000)
        return {"version": __version__, "pid": os.getpid(), "since": since, "pages": list(self.pages)}

    def _alarms(self, is_led: bool | None, models: list[dict[str, Any]]) -> list[Alarm]:
        faults = {held.name: held.fault for held in self.service.host.all() if held.fault is not None}
        in_step = {held.name for held in self.service.host.all() if held.spec.batch is not None}
        lags = {each["model"]: each["lag"] for each in models if each["model"] not in in_step}  # they wait on purpose
        room, since_full, failed = self.service.log.room(), self.pulse.seconds_since_full(), self.pulse.failed()
        return alarms(Facts(is_led, room, since_full, failed, lags, faults, tuple(self.failing())))

    def _n_uncompiled(self) -> int:
        return sum(1 for _ in self.service.host.uncompiled()) if self.service.settings.compile_first else 0

    def history(self, model: str, span: str) -> list[dict[str, Any]]:
        """Return the model's minutes or hours, oldest first; the last of them goes on."""
        rows = self.service.log.sums(SPANS[span], model=model)
        return [bucket(row) for row in (rows if span == "minutes" else by_hour(rows))]

    def totals(self) -> dict[str, Body]:
        """Return every model's sums since it was made."""
        return {row.model: row.body for row in self.service.log.sums((TOTAL,)) if row.span == TOTAL}


def _or_none(ask: Callable[[], Any]) -> Any:
    """Return an answer of the log, or None while it cannot be asked."""
    try:
        return ask()
    except Refused:
        return None


def bucket(row: Sums) -> dict[str, Any]:
    """Return what happened in a minute or an hour."""
    return {"start": row.start * 1000, **counting.summary(row.body.amounts)}


def _model(held: Hosted, rows: list[Sums], lags: Lags) -> dict[str, Any]:
    total = next((row.body for row in rows if row.span == TOTAL), Body({}))
    progress = total.progress or Progress()
    newest = next(reversed(held.published), 0)  # as the log has them: the last is the newest
    return {
        "model": held.name,
        "ranker": held.spec.ranker,
        "n_features": held.spec.n_features,
        "places": held.spec.places,
        "version": held.version,
        "newest": newest,
        "pinned": held.pinned,
        "learned": held.published[newest].learned if newest else 0,
        "published_at": held.published_at.get(held.version),
        "newest_at": held.published_at.get(newest),
        "lag": lags.of(held.name, progress),
        "total": counting.summary(total.amounts) | {"by_place": by_place(total.amounts)},
        # A clock that was set back finds hours of them younger than it asks for: the log's times do not go back.
        "minutes": [bucket(row) for row in rows if row.span == MINUTE][-MINUTES_TOLD:],
    }


def by_place(amounts: Amounts) -> list[dict[str, int]]:
    """Return each place with how often something was shown there and clicked."""
    return [{"place": place, "shown": n, "clicks": clicks} for place, n, clicks in counting.clicks_by_place(amounts)]
