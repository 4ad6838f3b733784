"""What Prometheus is told: counters of this process, and the sums beside the log."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from perturank.service import counting
from perturank.service.counting import summary
from perturank.service.log.sums import Body, Lags, Progress
from perturank.service.pulse import Pulse
from perturank.service.watching import Watch

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class Meter:
    """The counters of one serving process."""

    def __init__(self) -> None:
        self.pulse = Pulse()
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "perturank_requests", "Requests answered", ["method", "path", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "perturank_request_seconds", "Time to answer", ["path"], buckets=SECONDS, registry=self._registry
        )
        self.feedback = Counter(
            "perturank_feedback", "Feedback by effect", ["model", "status"], registry=self._registry
        )
        self._bytes = Gauge("perturank_log_bytes", "Size of the log", registry=self._registry)
        self._tail = Gauge("perturank_log_position", "Last position of the log", registry=self._registry)

    def page(self, watch: Watch) -> bytes:
        """Return all of it as text."""
        self._bytes.set(watch.service.log.size())
        self._tail.set(watch.service.log.tail())
        moment = CollectorRegistry()
        moment.register(Moment(watch))
        return generate_latest(self._registry) + generate_latest(moment)


class Moment:
    """The models as the log has them, whichever process served them."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        totals = self._watch.totals()
        yield from self._versions()
        yield from _counts(totals)
        yield from _learning(totals, self._watch.lags)
        yield from _shares(totals)
        alarm = GaugeMetricFamily("perturank_alarm", "1 where something is wrong", labels=["name", "model"])
        for each in self._watch.overview()["alarms"]:
            alarm.add_metric([each["name"], each["model"] or ""], 1)
        yield alarm

    def _versions(self) -> Iterator[Metric]:
        version = GaugeMetricFamily("perturank_version", "Served version", labels=["model"])
        age = GaugeMetricFamily("perturank_version_age_seconds", "Age of the served version", labels=["model"])
        for held in self._watch.service.host.all():
            version.add_metric([held.name], held.version)
            if held.version in held.published_at:
                age.add_metric([held.name], max(0.0, time.time() - held.published_at[held.version] / 1000))
        yield from (version, age)


def _counts(totals: dict[str, Body]) -> Iterator[Metric]:
    lists = CounterMetricFamily("perturank_lists", "Lists shown", labels=["model", "mode"])
    shown = CounterMetricFamily("perturank_shown", "Documents shown, by place", labels=["model", "place"])
    clicks = CounterMetricFamily("perturank_clicks", "Clicks, by place", labels=["model", "place"])
    kept = CounterMetricFamily("perturank_feedback_kept", "Feedback in the log, by effect", labels=["model", "status"])
    for model, body in totals.items():
        found = summary(body.amounts)
        for mode, n in found["lists"].items():
            lists.add_metric([model, mode], n)
        for status, n in found["feedback"].items():
            kept.add_metric([model, status], n)
        for place, n_shown, n_clicks in counting.clicks_by_place(body.amounts):
            shown.add_metric([model, str(place)], n_shown)
            clicks.add_metric([model, str(place)], n_clicks)
    yield from (lists, shown, clicks, kept)


def _learning(totals: dict[str, Body], lags_now: Lags) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "perturank_learning_lag_seconds", "For how long clicks have waited to be learned", labels=["model"]
    )
    lags = SummaryMetricFamily("perturank_learned_after_seconds", "From click to version", labels=["model"])
    update = SummaryMetricFamily("perturank_update_seconds", "Time of a batch's learning", labels=["model"])
    learned = CounterMetricFamily("perturank_learned", "Impressions learned", labels=["model"])
    for model, body in totals.items():
        sums = body.amounts
        lag.add_metric([model], lags_now.of(model, body.progress or Progress()))
        lags.add_metric([model], int(sums.get("lags", 0)), sums.get("lag", 0))
        update.add_metric([model], int(sums.get(counting.UPDATES, 0)), sums.get(counting.UPDATE_SECONDS, 0))
        learned.add_metric([model], sums.get(counting.LEARNED, 0))
    yield from (lag, lags, update, learned)


def _shares(totals: dict[str, Body]) -> Iterator[Metric]:
    pairs = SummaryMetricFamily("perturank_uncertain_share", "Pairs without a certain order, sampled", labels=["model"])
    places = CounterMetricFamily("perturank_places", "Places of lists that might explore", labels=["model"])
    certain = CounterMetricFamily(
        "perturank_certain_places", "Of these, those where one document was free", labels=["model"]
    )
    cost = GaugeMetricFamily(
        "perturank_exploration_cost", "Reciprocal rank lost to exploration, estimated", labels=["model"]
    )
    for model, body in totals.items():
        sums = body.amounts
        pairs.add_metric([model], int(sums.get(counting.PAIRS_ASKED, 0)), sums.get(counting.UNCERTAIN, 0))
        places.add_metric([model], sums.get(counting.PLACES, 0))
        certain.add_metric([model], sums.get(counting.CERTAIN, 0))
        found = summary(sums)["exploration"]
        if found is not None:
            cost.add_metric([model], found["cost"])
    yield from (pairs, places, certain, cost)
