from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from helpers.serving import SPEC, Serving
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """An OTLP collector: takes traces over HTTP as its protocol says, and keeps the spans by service."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.take(self.path, self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        for traced in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {each.key: each.value.string_value for each in traced.resource.attributes}
            for scoped in traced.scope_spans:
                self.spans += [(names["service.name"], span) for span in scoped.spans]

    def names(self, service: str) -> set[str]:
        return {span.name for name, span in list(self.spans) if name == service}


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, daemon=True)
    thread.start()
    yield collector
    collector.server.shutdown()
    thread.join()


def test_requests_and_learning_are_traced_and_lines_are_json_where_the_environment_says_so(tmp_path: Path) -> None:
    with collecting() as collector:
        serving = Serving(
            tmp_path,
            PERTURANK_LOG_LINES="json",
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_BSP_SCHEDULE_DELAY="100",
        )
        with serving.client() as client:
            client.put_model("shop", **SPEC)
            shown = client.rank(
                [{"id": each, "features": [x] * 5} for each, x in (("a", 0.0), ("b", 1.0))], model="shop"
            )
            client.feedback(shown.impression, [shown.ids[1]], final=True, model="shop")
            serving.until(lambda: bool(client.versions("shop")["versions"]))
        served, learned = "POST /v1/models/{model}/rank", "perturank-learn"
        serving.until(lambda: served in collector.names("perturank-serve") and collector.names(learned))
        serving.stop()
    assert collector.names(learned) == {"learn"}
    (span,) = [span for name, span in collector.spans if name == learned]
    assert {each.key: each.value.int_value for each in span.attributes} == {"perturank.impressions": 1}
    assert not any("healthz" in name or "readyz" in name for name in collector.names("perturank-serve"))
    lines = [json.loads(line) for line in (tmp_path / "err.txt").read_text().splitlines()]
    assert all({"time", "level", "request", "message"} <= line.keys() for line in lines)
    assert any(line["message"] == "POST /v1/models/shop/rank 200" and line["request"] != "-" for line in lines)


def test_a_collector_without_opentelemetry_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; sys.modules['opentelemetry.sdk'] = None; from perturank.cli import main; main()"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    done = subprocess.run([sys.executable, "-c", code, "serve", "--port", "0"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "perturank[tracing]" in done.stderr
    assert "Traceback" not in done.stderr
