"""What Prometheus is told."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from perturank.service.service import Service

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class Meter:
    """The counters of one serving process."""

    def __init__(self) -> None:
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
        self._age = Gauge(
            "perturank_version_age_seconds", "Age of the served version", ["model"], registry=self._registry
        )
        self._version = Gauge("perturank_version", "Served version", ["model"], registry=self._registry)
        self._bytes = Gauge("perturank_log_bytes", "Size of the log", registry=self._registry)
        self._tail = Gauge("perturank_log_position", "Last position of the log", registry=self._registry)

    def page(self, service: Service) -> bytes:
        """Return all of it as text."""
        self._bytes.set(service.log.size())
        self._tail.set(service.log.tail())
        for held in service.host.all():
            self._version.labels(held.name).set(held.version)
            if held.version in held.published_at:
                self._age.labels(held.name).set(max(0.0, time.time() - held.published_at[held.version] / 1000))
        return generate_latest(self._registry)
