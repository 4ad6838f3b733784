"""Metrics of a serving process for Prometheus, and its traffic of the last two minutes for the dashboard."""

from __future__ import annotations

import collections
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from perturank.service.log import Log, counters, quality
from perturank.service.log.counters import LAG, LAGS, Amounts

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
OF_MODELS = (  # kind, name, meaning, labels
    (GaugeMetricFamily, "version", "Served version", ["model"]),
    (GaugeMetricFamily, "version_age_seconds", "Age of the served version", ["model"]),
    (CounterMetricFamily, "lists", "Lists shown", ["model", "mode"]),
    (CounterMetricFamily, "shown", "Documents shown, by place", ["model", "place"]),
    (CounterMetricFamily, "clicks", "Clicks, by place", ["model", "place"]),
    (CounterMetricFamily, "events", "Events, by action", ["model", "action"]),
    (GaugeMetricFamily, "event_value", "Sum of the values of events, by action", ["model", "action"]),
    (CounterMetricFamily, "ubi_records", "UBI records, by what they did", ["model", "status"]),
    (GaugeMetricFamily, "reward", "Sum of what shown documents turned out to be worth", ["model"]),
    (CounterMetricFamily, "feedback_kept", "Feedback in the log, by effect", ["model", "status"]),
    (GaugeMetricFamily, "learning_lag_seconds", "For how long clicks have waited to be learned", ["model"]),
    (GaugeMetricFamily, "exploration_cost", "Reciprocal rank lost to exploration, estimated", ["model"]),
    (CounterMetricFamily, "searches", "Lists whose quality is known, by mode or estimated order", ["model", "order"]),
    (GaugeMetricFamily, "reciprocal_rank_sum", "Sum of their reciprocal ranks of the first click", ["model", "order"]),
    (GaugeMetricFamily, "reward_sum", "Sum of what their documents turned out to be worth", ["model", "order"]),
    (GaugeMetricFamily, "alarm", "1 where something is wrong", ["name", "model"]),
)
OF_COUNTERS = (  # kind, name, meaning, and the counters that are its values: for a summary its count and its sum
    (SummaryMetricFamily, "learned_after_seconds", "From click to version", LAGS, LAG),
    (SummaryMetricFamily, "update_seconds", "Time of a batch's learning", counters.UPDATES, counters.UPDATE_SECONDS),
    (CounterMetricFamily, "learned", "Interactions learned", counters.LEARNED),
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
SECONDS_KEPT = 120
SECONDS_OF_LATENCY = 60
SHORTEST = 1e-4
KINDS = {
    "/v1/models/{model}/rank": "rank",
    "/v1/models/{model}/feedback": "feedback",
    "/ubi_events": "feedback",
    "/ubi/{key}/ubi_events": "feedback",
}
FAILED, FULL = "failed", 507


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

    def page(self, log: Log, now: Mapping[str, Any], totals: Mapping[str, Amounts]) -> bytes:
        """Return all of it as text; `now` is what the dashboard is told, `totals` the counters of every model."""
        self._bytes.set(log.size())
        self._position.set(log.tail())
        of_log = CollectorRegistry()
        of_log.register(LogCollector(now, totals))
        return generate_latest(self._registry) + generate_latest(of_log)


class LogCollector(Collector):
    """The models as the log has them, whichever process served them."""

    def __init__(self, now: Mapping[str, Any], totals: Mapping[str, Amounts]) -> None:
        self._now, self._totals = now, totals

    def collect(self) -> Iterable[Metric]:
        """Return every family."""
        families: dict[str, Any] = {
            name: kind(f"perturank_{name}", says, labels=of) for kind, name, says, of in OF_MODELS
        }
        for name, labels, value in self._samples():
            families[name].add_metric(labels, value)
        for kind, name, says, *values in OF_COUNTERS:
            families[name] = kind(f"perturank_{name}", says, labels=["model"])
            for model, amounts in self._totals.items():
                families[name].add_metric([model], *(amounts.get(value, 0) for value in values))
        return families.values()

    def _samples(self) -> Iterator[Sample]:
        for each in self._now["models"]:
            yield "version", [each["model"]], each["version"]
            yield "learning_lag_seconds", [each["model"]], each["lag"]
            if each["published_at"] is not None:
                yield "version_age_seconds", [each["model"]], max(0.0, time.time() - each["published_at"] / 1000)
        for alarm in self._now["alarms"]:
            yield "alarm", [alarm["name"], alarm["model"] or ""], 1
        for model, amounts in self._totals.items():
            found = counters.summary(amounts)
            yield from (("lists", [model, mode], n) for mode, n in found["lists"].items())
            yield from (("feedback_kept", [model, status], n) for status, n in found["feedback"].items())
            yield from (("events", [model, action], n) for action, n in found["events"].items())
            yield from (("event_value", [model, action], sum_) for action, sum_ in found["values"].items())
            yield from (("ubi_records", [model, status], n) for status, n in found["ubi"].items())
            yield "reward", [model], found["reward"]
            for order, each in quality.sums(amounts).items():
                yield "searches", [model, order], each[quality.LISTS]
                yield "reciprocal_rank_sum", [model, order], each[quality.RANK]
                yield "reward_sum", [model, order], each[quality.REWARD]
            for each in counters.by_place(amounts):
                yield "shown", [model, str(each["place"])], each["shown"]
                yield "clicks", [model, str(each["place"])], each["clicks"]
            if found["exploration"] is not None:
                yield "exploration_cost", [model], found["exploration"]["cost"]


class Traffic:
    """Requests of the last two minutes; one thread notes them, any thread may read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Of each second with requests, how many took at most 2^(n/4) seconds and longer than 2^((n-1)/4), by n.
        self._seconds = {
            kind: deque[tuple[int, collections.Counter[int]]](maxlen=SECONDS_KEPT) for kind in (*KINDS.values(), FAILED)
        }
        self._full: float | None = None

    def note(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        if path in KINDS:
            self._count(KINDS[path], seconds)
        if status >= 500 and path.startswith("/v1/"):  # /readyz may answer 503 without a failure
            self._count(FAILED, seconds)
            self._full = self._clock() if status == FULL else self._full

    def _count(self, kind: str, seconds: float) -> None:
        now, counts = int(self._clock()), self._seconds[kind]
        if not counts or counts[-1][0] != now:
            counts.append((now, collections.Counter()))
        counts[-1][1][math.ceil(4 * math.log2(max(seconds, SHORTEST)))] += 1

    def seconds_since_full(self) -> float | None:
        """Return how long ago a request found the log full; None: never."""
        return None if self._full is None else self._clock() - self._full

    def n_failed(self) -> int:
        """Return how many requests the service failed to answer in the last minute."""
        return self._last_minute(FAILED).total()

    def now(self) -> dict[str, Any]:
        """Return, of each kind, requests in each of the last seconds, oldest first, and quantiles of a minute."""
        end = int(self._clock())  # this second is not over
        found = {}
        for kind in dict.fromkeys(KINDS.values()):
            totals, minute = {second: n.total() for second, n in list(self._seconds[kind])}, self._last_minute(kind)
            per_second = [totals.get(second, 0) for second in range(end - SECONDS_KEPT + 1, end)]
            found[kind] = {"per_second": per_second, "p50": _quantile(minute, 0.5), "p99": _quantile(minute, 0.99)}
        return found

    def _last_minute(self, kind: str) -> collections.Counter[int]:
        since = int(self._clock()) - SECONDS_OF_LATENCY
        counts = [n.copy() for second, n in list(self._seconds[kind]) if second >= since]  # the other thread goes on
        return sum(counts, collections.Counter())


def _quantile(counts: collections.Counter[int], q: float) -> float | None:
    """Return the upper end of the class in which the quantile lies, in seconds: at most 19 % too much."""
    left = q * counts.total()
    for number, n in sorted(counts.items()):
        left -= n
        if left <= 0:
            return 2 ** (number / 4)
    return None
