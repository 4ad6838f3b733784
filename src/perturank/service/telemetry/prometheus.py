"""What Prometheus is told: counters of this process, and the sums beside the log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from perturank.service.log.sums import LAG, LAGS, Amounts
from perturank.service.telemetry import counters
from perturank.service.telemetry.overview import Overview
from perturank.service.telemetry.traffic import Traffic

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
OF_MODELS = (  # kind, name, meaning, labels
    (GaugeMetricFamily, "version", "Served version", ["model"]),
    (GaugeMetricFamily, "version_age_seconds", "Age of the served version", ["model"]),
    (CounterMetricFamily, "lists", "Lists shown", ["model", "mode"]),
    (CounterMetricFamily, "shown", "Documents shown, by place", ["model", "place"]),
    (CounterMetricFamily, "clicks", "Clicks, by place", ["model", "place"]),
    (CounterMetricFamily, "feedback_kept", "Feedback in the log, by effect", ["model", "status"]),
    (GaugeMetricFamily, "learning_lag_seconds", "For how long clicks have waited to be learned", ["model"]),
    (GaugeMetricFamily, "exploration_cost", "Reciprocal rank lost to exploration, estimated", ["model"]),
    (GaugeMetricFamily, "alarm", "1 where something is wrong", ["name", "model"]),
)
OF_SUMS = (  # kind, name, meaning, and the sums that are its values: of a summary count and sum
    (SummaryMetricFamily, "learned_after_seconds", "From click to version", LAGS, LAG),
    (SummaryMetricFamily, "update_seconds", "Time of a batch's learning", counters.UPDATES, counters.UPDATE_SECONDS),
    (CounterMetricFamily, "learned", "Impressions learned", counters.LEARNED),
    (
        SummaryMetricFamily,
        "uncertain_share",
        "Pairs without a certain order, sampled",
        counters.SAMPLED,
        counters.UNCERTAIN,
    ),
    (CounterMetricFamily, "places", "Places of lists that might explore", counters.PLACES),
    (CounterMetricFamily, "certain_places", "Of these, those where one document was free", counters.CERTAIN),
)
Sample = tuple[str, list[str], float]


class Metrics:
    """The metrics of one serving process."""

    def __init__(self) -> None:
        self.traffic, self._registry = Traffic(), CollectorRegistry()
        own: dict[str, Any] = {"namespace": "perturank", "registry": self._registry}
        # Labels are looked up in a cache of our own: prometheus_client locks and copies them at each call.
        self._requests = cache(Counter("requests", "Requests answered", ["method", "path", "status"], **own).labels)
        self._seconds = cache(Histogram("request_seconds", "Time to answer", ["path"], buckets=SECONDS, **own).labels)
        self._feedback = cache(Counter("feedback", "Feedback by effect", ["model", "status"], **own).labels)
        self._bytes = Gauge("log_bytes", "Size of the log", **own)
        self._position = Gauge("log_position", "Last position of the log", **own)

    def note_request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests(method, path, status).inc()
        self._seconds(path).observe(seconds)
        self.traffic.note(path, status, seconds)

    def note_feedback(self, model: str, status: str) -> None:
        """Count feedback by what it did."""
        self._feedback(model, status).inc()

    def page(self, overview: Overview) -> bytes:
        """Return all of it as text."""
        self._bytes.set(overview.service.log.size())
        self._position.set(overview.service.log.tail())
        of_log = CollectorRegistry()
        of_log.register(LogCollector(overview))
        return generate_latest(self._registry) + generate_latest(of_log)


class LogCollector(Collector):
    """The models as the log has them, whichever process served them."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def collect(self) -> Iterable[Metric]:
        """Return every family."""
        totals = self._overview.totals()
        families: dict[str, Any] = {
            name: kind(f"perturank_{name}", says, labels=of) for kind, name, says, of in OF_MODELS
        }
        for name, labels, value in self._samples(totals):
            families[name].add_metric(labels, value)
        for kind, name, says, *values in OF_SUMS:
            families[name] = kind(f"perturank_{name}", says, labels=["model"])
            for model, sums in totals.items():
                families[name].add_metric([model], *(sums.get(value, 0) for value in values))
        return families.values()

    def _samples(self, totals: dict[str, Amounts]) -> Iterator[Sample]:
        now = self._overview.now()
        for each in now["models"]:
            yield "version", [each["model"]], each["version"]
            yield "learning_lag_seconds", [each["model"]], each["lag"]
            if each["published_at"] is not None:
                yield "version_age_seconds", [each["model"]], max(0.0, time.time() - each["published_at"] / 1000)
        for alarm in now["alarms"]:
            yield "alarm", [alarm["name"], alarm["model"] or ""], 1
        for model, sums in totals.items():
            found = counters.summary(sums)
            yield from (("lists", [model, mode], n) for mode, n in found["lists"].items())
            yield from (("feedback_kept", [model, status], n) for status, n in found["feedback"].items())
            for each in counters.by_place(sums):
                yield "shown", [model, str(each["place"])], each["shown"]
                yield "clicks", [model, str(each["place"])], each["clicks"]
            if found["exploration"] is not None:
                yield "exploration_cost", [model], found["exploration"]["cost"]
