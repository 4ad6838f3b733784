"""The OpenAPI 3.1 document, and a page to read it that asks nobody else for anything."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from typing import Any

import msgspec

from perturank.__about__ import __version__
from perturank.service.api.forms import BINARY, FILE
from perturank.service.api.gate import MODEL
from perturank.service.api.problems import PROBLEM
from perturank.service.api.requests import Problem
from perturank.service.api.routes import ROUTES, Events, Route

ALWAYS = (403, 408)  # a page from elsewhere; a request that does not come
BEHIND_KEYS = (401, 422, 429, 503)
STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em;overflow-wrap:anywhere}"
    "pre{overflow-x:auto;background:#eee;padding:1em}"
)
STYLES = f"'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
PAGE_POLICY = f"default-src 'none'; style-src {STYLES}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
REQUEST_ID = {"x-request-id": {"description": "as in the log", "schema": {"type": "string"}}}


def document() -> dict[str, Any]:
    """Return the description of every route."""
    kinds = {kind for route in ROUTES for kind in (route.takes, route.gives, route.binary) if _is_struct(kind)}
    ordered = sorted(kinds | {Problem}, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "perturank", "version": __version__, "summary": "Rank, show, click, learn"},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    problems = {*route.refuses, *ALWAYS, *(BEHIND_KEYS if route.scope is not None else ())} - dict(route.also).keys()
    answers = {status: _answer(says, route) for status, says in [(route.status, "done"), *route.also]}
    found: dict[str, Any] = {
        "operationId": route.handler.replace(".", "_"),
        "summary": route.says,
        "responses": {
            str(status): (answers | {each: _problem(each) for each in problems})[status]
            for status in sorted({*answers, *problems})
        },
    }
    parameters: list[dict[str, Any]] = [{"name": name, "in": "query", "schema": schema} for name, schema in route.query]
    if "{model}" in route.path:
        pattern = {"type": "string", "pattern": f"^{MODEL.pattern}$"}
        parameters.append({"name": "model", "in": "path", "required": True, "schema": pattern})
    if parameters:
        found["parameters"] = parameters
    if route.takes is not None:
        found["requestBody"] = {"required": True, "content": _content(route.takes) | _packed(route.binary)}
    if route.scope is not None:
        found["security"] = [{}, {"key": []}]
        needs = f"Needs the scope {route.scope}, where the service asks for keys."
        found["description"] = f"{needs} {route.note}".strip()
    return found


def _answer(says: str, route: Route) -> dict[str, Any]:
    content = _content(route.gives) | _packed(route.gives if route.binary else None)
    return {"description": says, "headers": REQUEST_ID, **({"content": content} if content else {})}


def _content(kind: Any) -> dict[str, Any]:
    if kind is None:
        return {}
    if kind is bytes:
        return {FILE: {"schema": {"type": "string", "format": "binary"}}}
    if kind is Events:
        return {"text/event-stream": {"schema": {"type": "string"}}}
    if kind is str:
        return {"text/plain": {"schema": {"type": "string"}}}
    return {"application/json": {"schema": _schema(kind)}}


def _packed(kind: Any) -> dict[str, Any]:
    return {} if kind is None else {BINARY: {"schema": _schema(kind)}}


def _schema(kind: Any) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"} if _is_struct(kind) else {"type": "object"}


def _problem(status: int) -> dict[str, Any]:
    return {
        "description": "refused" if status < 500 else "not now",
        "headers": REQUEST_ID,
        "content": {PROBLEM: {"schema": _schema(Problem)}},
    }


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def page() -> str:
    """Return the document as one HTML page."""
    described = document()
    rows = []
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            name = body.get("$ref", "").rpartition("/")[2]
            takes = json.dumps(described["components"]["schemas"].get(name, {}), indent=2) if name else ""
            details = f"<details><summary>{name}</summary><pre>{html.escape(takes)}</pre></details>" if name else ""
            rows.append(
                f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
                f"<p>{html.escape(operation['summary'])}. {html.escape(operation.get('description', ''))}</p>"
                f"<p>Answers: {', '.join(sorted(operation['responses']))}</p>{details}"
            )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'><title>perturank API</title>"
        f"<style>{STYLE}</style>"
        f"<p><a href=/>Dashboard</a></p><h1>perturank {__version__}</h1>"
        f"<p>For programs: <a href=/openapi.json>openapi.json</a></p>{''.join(rows)}"
    )
