"""A search engine's learning to rank over HTTP, as far as its documentation describes it; not its search.

The LTR plugin: a store is made once (400 after that), a feature set can be put again, a model cannot (409), and names
only features of its set. Solr: features and models that are there already are refused (400).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answer = tuple[int, Any]


class Plugin:
    """`/_ltr` of Elasticsearch and OpenSearch."""

    def __init__(self) -> None:
        self.has_store = False
        self.sets: dict[str, Any] = {}
        self.models: dict[str, Any] = {}

    def answer(self, method: str, path: str, body: Any) -> Answer:
        """Return status and body."""
        match method, path.strip("/").split("/"):
            case "PUT", ["_ltr"]:
                was, self.has_store = self.has_store, True
                return (400, "resource_already_exists_exception") if was else (200, {"acknowledged": True})
            case "POST", ["_ltr", "_featureset", name] if self.has_store:
                return self._put_set(name, body["featureset"])
            case "POST", ["_ltr", "_featureset", name, "_createmodel"] if name in self.sets:
                return self._create_model(self.sets[name], body["model"])
            case "GET", ["_ltr", "_model", name] if name in self.models:
                return 200, {"found": True, "_source": self.models[name]}
            case "DELETE", ["_ltr", "_model", name] if name in self.models:
                del self.models[name]
                return 200, {"result": "deleted"}
        return 404, f"nothing at {method} {path}"

    def _put_set(self, name: str, said: Any) -> Answer:
        known: list[str] = []
        for feature in said["features"]:
            if feature["name"] in known or not isinstance(feature["params"], list):
                return 400, f"feature {feature['name']}"
            if feature["template_language"] == "derived_expression":
                names = {node.id for node in ast.walk(ast.parse(feature["template"])) if isinstance(node, ast.Name)}
                if names - {*known, "min", "max", "ln"}:
                    return 400, f"Derived feature [{feature['name']}] refers to unknown feature"
            known.append(feature["name"])
        self.sets[name] = said
        return 201, {"result": "created"}

    def _create_model(self, features: Any, said: Any) -> Answer:
        if said["name"] in self.models:
            return 409, "version conflict, document already exists"
        known = {feature["name"] for feature in features["features"]}
        if set(json.loads(said["model"]["definition"])) - known:
            return 400, "Feature is unknown"
        self.models[said["name"]] = {"features": features["features"], "model": said["model"]}
        return 201, {"result": "created"}


class Solr:
    """The stores of a Solr collection."""

    def __init__(self) -> None:
        self.features: dict[str, Any] = {}
        self.models: dict[str, Any] = {}

    def answer(self, method: str, path: str, body: Any) -> Answer:
        """Return status and body."""
        match method, path.strip("/").split("/"):
            case "PUT", ["solr", "shop", "schema", "feature-store"]:
                if any(feature["name"] in self.features for feature in body):
                    return 400, "feature name already in the store"
                self.features |= {feature["name"]: feature for feature in body}
                return 200, {}
            case "PUT", ["solr", "shop", "schema", "model-store"]:
                if body["name"] in self.models:
                    return 400, f"model '{body['name']}' already exists"
                if any(each["name"] not in self.features for each in body["features"]):
                    return 400, "Feature is missing in store"
                self.models[body["name"]] = body
                return 200, {}
            case "GET", ["solr", "shop", "schema", "model-store"]:
                return 200, {"models": list(self.models.values())}
            case "DELETE", ["solr", "shop", "schema", "model-store", name] if name in self.models:
                del self.models[name]
                return 200, {}
            case "DELETE", ["solr", "shop", "schema", "feature-store", _]:
                self.features.clear()
                return 200, {}
        return 404, f"nothing at {method} {path}"


@contextmanager
def running(engine: Plugin | Solr) -> Iterator[str]:
    """Serve it on a free port and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, said = engine.answer(self.command, self.path, body)
            content = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 (names of the standard library)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
