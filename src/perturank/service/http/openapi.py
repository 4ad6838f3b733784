"""The OpenAPI 3.1 document."""

from __future__ import annotations

from typing import Any, get_args, get_origin, is_typeddict

import msgspec

from perturank.__about__ import __version__
from perturank.service.http.decoding import BINARY, FILE
from perturank.service.http.request import MODEL, PROBLEM
from perturank.service.http.routes import ROUTES, Events, Exported, Route
from perturank.wire.answers import Problem
from perturank.wire.specification import SpecRecord

ALWAYS = (403, 408)  # a page from elsewhere; a request that does not come
BEHIND_KEYS = (401, 422, 429, 503)
BYTES = {"type": "string", "format": "binary"}
REQUEST_ID = {"x-request-id": {"description": "as in the log", "schema": {"type": "string"}}}


def document() -> dict[str, Any]:
    """Return the description of every route."""
    named = [_item(kind) for route in ROUTES for kind in (route.takes, route.gives, route.binary)]
    kinds = {kind for kind in named if has_schema(kind)}
    ordered = sorted(kinds | {Problem, SpecRecord}, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "perturank", "version": __version__, "summary": "Rank, show, click, learn"},
        "paths": paths,
        "components": {
            "schemas": msgspec.json.decode(msgspec.json.encode(components)),  # defaults as JSON has them
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
    for name in ("model", "test"):
        if f"{{{name}}}" in route.path:
            pattern = {"type": "string", "pattern": f"^{MODEL.pattern}$"}
            parameters.append({"name": name, "in": "path", "required": True, "schema": pattern})
    if parameters:
        found["parameters"] = parameters
    if route.takes is not None:
        asked, _ = route.example
        content = _content(route.takes, asked) | _packed(route.binary)
        found["requestBody"] = {"required": True, "content": content}
    if route.scope is not None:
        found["security"] = [{}, {"key": []}]
        needs = f"Needs the scope {route.scope}, where the service asks for keys."
        found["description"] = f"{needs} {route.note}".strip()
    elif route.note:
        found["description"] = route.note
    return found


def _answer(says: str, route: Route) -> dict[str, Any]:
    content = _content(route.gives, route.example[1]) | _packed(route.gives if route.binary else None)
    return {"description": says, "headers": REQUEST_ID, **({"content": content} if content else {})}


def _content(kind: Any, example: Any = None) -> dict[str, Any]:
    if kind is None:
        return {}
    if kind is bytes:
        return {FILE: {"schema": BYTES}}
    if kind is Exported:
        return {"application/json": {"schema": {"type": "object"}}, "application/octet-stream": {"schema": BYTES}}
    if kind is Events:
        return {"text/event-stream": {"schema": {"type": "string"}}}
    if kind is str:
        return {"text/plain": {"schema": {"type": "string"}}}
    return {"application/json": {"schema": _schema(kind), **({} if example is None else {"example": example})}}


def _packed(kind: Any) -> dict[str, Any]:
    return {} if kind is None else {BINARY: {"schema": _schema(kind)}}


def _item(kind: Any) -> Any:
    """Return what a list is of; of anything else, itself."""
    return get_args(kind)[0] if get_origin(kind) is list else kind


def _schema(kind: Any) -> dict[str, Any]:
    if get_origin(kind) is list:
        return {"type": "array", "items": _schema(_item(kind))}
    return {"$ref": f"#/components/schemas/{kind.__name__}"} if has_schema(kind) else {"type": "object"}


def _problem(status: int) -> dict[str, Any]:
    return {
        "description": "refused" if status < 500 else "not now",
        "headers": REQUEST_ID,
        "content": {PROBLEM: {"schema": _schema(Problem)}},
    }


def has_schema(kind: Any) -> bool:
    """Return whether this is a type of `wire`, which the document describes under its name."""
    return is_typeddict(kind) or (isinstance(kind, type) and issubclass(kind, msgspec.Struct))
