"""OpenTelemetry traces, sent by OTLP over HTTP: off unless the environment names a collector.

OpenTelemetry's own variables configure it: OTEL_EXPORTER_OTLP_ENDPOINT switches it on, OTEL_SERVICE_NAME,
OTEL_TRACES_SAMPLER and the others mean what its documentation says.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.applications import Starlette

from perturank.errors import BadInput

SWITCHES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
QUIET = "healthz,readyz,metrics,v1/live"  # asked for all day, or never ending


class Tracing:
    """Spans of one process; without a collector they cost nothing."""

    def __init__(self, service_name: str) -> None:
        self._provider = _provider(service_name) if any(os.environ.get(name) for name in SWITCHES) else None

    def watch(self, app: Starlette) -> None:
        """Make a span of every request, by Starlette's instrumentation."""
        if self._provider is not None:
            from opentelemetry.instrumentation.starlette import StarletteInstrumentor

            os.environ.setdefault("OTEL_PYTHON_STARLETTE_EXCLUDED_URLS", QUIET)
            StarletteInstrumentor.instrument_app(app, tracer_provider=self._provider)

    @contextmanager
    def span(self, name: str) -> Iterator[dict[str, Any]]:
        """Make a span of the block, which may fill in attributes; a block that leaves them empty makes none."""
        attributes: dict[str, Any] = {}
        began = time.time_ns()
        yield attributes
        if self._provider is not None and attributes:
            span = self._provider.get_tracer("perturank").start_span(name, attributes=attributes, start_time=began)
            span.end()

    def close(self) -> None:
        """Send what is left."""
        if self._provider is not None:
            self._provider.shutdown()


def _provider(service_name: str) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        what = "the environment asks for traces (OTEL_EXPORTER_OTLP_ENDPOINT) and OpenTelemetry is not installed"
        raise BadInput(what, "pip install 'perturank[tracing]', or unset the variable") from None
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: service_name}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
