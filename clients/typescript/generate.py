"""Writes the types and methods of `perturank.ts` from the OpenAPI document of the service."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perturank.service.http.openapi import document

FILE = Path(__file__).parent / "perturank.ts"
MARK = "// ---- Generated from here on ----\n"
REFERENCE = "#/components/schemas/"
OF_MODEL, OF_TEST = "/v1/models/{model}", "/v1/tests/{test}"
NAMES = {  # as in the Python client; other operations are called as their handlers are
    "lists_explain_shown": "explainImpression",
    "models_list_models": "models",
    "models_get": "model",
    "models_put": "putModel",
    "models_patch": "patchModel",
    "models_delete": "deleteModel",
    "models_import_file": "putFile",
    "ubi_events": "ubiEvents",
    "ubi_queries": "ubiQueries",
    "tests_list_tests": "tests",
    "tests_get": "test",
    "tests_put": "putTest",
    "tests_stop": "stopTest",
    "tests_rank": "rankTest",
    "tests_feedback": "feedbackTest",
}
# Done twice, these are the same as done once; so is everything that is asked for with GET.
REPEATABLE = (
    *("lists_feedback", "lists_feedback_batch", "lists_explain", "tests_feedback"),
    *("models_pin", "models_unpin", "models_erase"),
)
PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
JSON = "application/json"
WIDTH = 120


def written() -> str:
    """Return the whole file: what stands before the mark, and what is generated."""
    by_hand = FILE.read_text(encoding="utf-8").partition(MARK)[0]
    return by_hand + MARK + "\n" + "\n".join(generated(document()))


def generated(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for every schema and every operation."""
    operations = [
        (path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = described["components"]["schemas"]
    for name in sorted(_used(operations, schemas)):
        yield from interface(name, schemas[name])
    yield from comment("Every route of the service.", "")
    yield "export class Client extends Connection {"
    for i, each in enumerate(operations):
        yield from [""] * bool(i)
        yield from method_of(*each)
    yield "}"
    yield ""


def _used(operations: list[tuple[str, str, Mapping[str, Any]]], schemas: Mapping[str, Any]) -> set[str]:
    """Return the schemas that JSON of some operation needs; the binary form is not spoken here."""
    found: set[str] = set()
    waiting = [content for _, _, operation in operations for content in _contents(operation)]
    while waiting:
        for name in set(re.findall(rf"{REFERENCE}(\w+)", json.dumps(waiting.pop()))) - found:
            found.add(name)
            waiting.append(schemas[name])
    return found


def _contents(operation: Mapping[str, Any]) -> list[Any]:
    bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
    return [body.get("content", {}).get(JSON, {}).get("schema", {}) for body in bodies]


def interface(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield a type for a schema of this name."""
    yield from comment(schema.get("description", ""), "")
    yield f"export interface {name} {{"
    for field, about in schema["properties"].items():
        is_needed = field in schema.get("required", ())
        yield f"  {field}{'' if is_needed else '?'}: {type_of(about)};"
    yield "}"
    yield ""


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a schema as a type.

    >>> type_of({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}})
    '(number | null)[]'
    """
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(REFERENCE)
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(type_of(each) for each in schema["anyOf"]))
    match schema.get("type"):
        case "array":
            items = type_of(schema.get("items", {}))
            return f"({items})[]" if " " in items else f"{items}[]"
        case "object":
            return f"Record<string, {type_of(schema.get('additionalProperties', {}))}>"
        case str(kind):
            return PRIMITIVES[kind]
    return "unknown"


def method_of(path: str, verb: str, operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield the method for an operation."""
    (kind, answer), others = _answer(operation)
    given, call = _request(path, verb, operation)
    said = {"method": f'"{verb.upper()}"', "path": _path(path)} | call
    if verb == "get" or operation["operationId"] in REPEATABLE:
        said["repeatable"] = "true"
    if others:
        said["answers"] = f"[{', '.join(others)}]"
    fields = ", ".join(name if name == value else f"{name}: {value}" for name, value in said.items())
    does = "events" if kind == "events" else "send"
    returned = f"{'AsyncGenerator' if kind == 'events' else 'Promise'}<{answer}>"
    yield from comment(f"{operation['summary']}. {operation.get('description', '')}".strip(), "  ")
    yield from _signature(name_of(operation["operationId"]), [*given, "options: CallOptions = {}"], returned)
    yield f"    const call = {{ {fields} }};"
    yield f"    return this.{does}(call, options{'' if kind == 'events' else f', {kind}'});"
    yield "  }"


def _signature(name: str, given: list[str], returned: str) -> Iterator[str]:
    """Yield the head of a method, on one line where it fits."""
    line = f"  {name}({', '.join(given)}): {returned} {{"
    if len(line) <= WIDTH:
        yield line
    else:
        yield f"  {name}("
        yield from (f"    {each}," for each in given)
        yield f"  ): {returned} {{"


def name_of(operation: str) -> str:
    """Return what the method of an operation is called.

    >>> name_of("lists_rank_batch"), name_of("models_put")
    ('rankBatch', 'putModel')
    """
    first, *rest = operation.split("_")[1:]
    return NAMES.get(operation, first + "".join(word.capitalize() for word in rest))


def _path(path: str) -> str:
    if path.startswith(OF_MODEL):
        return f'ofModel(model, "{path.removeprefix(OF_MODEL)}")'
    if path.startswith(OF_TEST):
        return f'ofTest(test, "{path.removeprefix(OF_TEST)}")'
    return f'"{path}"'


def _request(path: str, verb: str, operation: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the parameters of a method, and what they become of a call."""
    given, call = [f"{name}: string" for name in re.findall(r"\{(\w+)\}", path)], {}
    content = operation.get("requestBody", {}).get("content", {})
    if JSON in content:
        given.append(f"body: {type_of(content[JSON]['schema'])}")
        call["json"] = "body"
    elif content:
        given.append("file: Blob | ArrayBuffer")
        call["file"] = "file"
    asked = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
    if asked:
        fields = "; ".join(f"{each['name']}?: {_query_type(each['schema'])}" for each in asked)
        given.append(f"query: {{ {fields} }} = {{}}")
        call["query"] = "query"
    return given, call


def _query_type(schema: Mapping[str, Any]) -> str:
    return "boolean" if set(schema.get("enum", ())) == {"true", "false"} else type_of(schema)


def _answer(operation: Mapping[str, Any]) -> tuple[tuple[str, str], list[str]]:
    """Return how an answer is read and its type, and the statuses of failures that have the same form."""
    answers = {status: each.get("content", {}) for status, each in operation["responses"].items()}
    form = next(content for status, content in answers.items() if status.startswith("2"))
    others = [status for status, content in answers.items() if not status.startswith("2") and content == form]
    if JSON in form:
        answer = type_of(form[JSON]["schema"])
        return (f"asJson<{answer}>", answer), others
    if "text/event-stream" in form:
        return ("events", "Record<string, unknown>"), others
    if "text/plain" in form:
        return ("asText", "string"), others
    return (("asBytes", "ArrayBuffer") if form else ("asNothing", "void")), others


def comment(text: str, indent: str) -> Iterator[str]:
    """Yield the lines of a comment."""
    parts = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    lines = [line for part in parts for line in ["", *textwrap.wrap(part, WIDTH - len(indent) - 3)]][1:]
    if len(lines) == 1 and len(lines[0]) + len(indent) + 7 <= WIDTH:
        yield f"{indent}/** {lines[0]} */"
    elif lines:
        yield f"{indent}/**"
        yield from (f"{indent} * {line}".rstrip() for line in lines)
        yield f"{indent} */"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
