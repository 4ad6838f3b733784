"""The OpenAPI document as one page to read, which asks nobody else for anything."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from perturank.__about__ import __version__
from perturank.service.http.openapi import document

STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8882}
html{background:Canvas;color:CanvasText}
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}
h2{margin-top:3rem;border-top:1px solid var(--line);padding-top:1rem}
h3{margin:2rem 0 0}
code,pre{font:.875rem/1.5 ui-monospace,monospace}
h3 code{font-size:1rem;font-weight:600}
pre{background:var(--soft);padding:.75rem;white-space:pre-wrap}
ul{padding-left:1.25rem}nav ul{list-style:none;padding:0}
table{border-collapse:collapse;width:100%;table-layout:fixed}caption{text-align:left}
th,td{text-align:left;vertical-align:top;padding:.25rem .5rem .25rem 0;border-bottom:1px solid var(--line)}
th{width:30%;font-weight:inherit}p{margin:.5rem 0}
"""
STYLES = f"'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
PAGE_POLICY = f"default-src 'none'; style-src {STYLES}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
INTRODUCTION = """
<p><a href="/">Dashboard</a> · for programs: <a href="/openapi.json">openapi.json</a></p>
<p>Where the service asks for keys, send <code>authorization: Bearer KEY</code>. What is refused is answered with a
<a href="#Problem">Problem</a>; <code>x-request-id</code> of every answer stands in the log lines too.</p>
<p>Where <code>application/msgpack</code> is taken, a request with that <code>content-type</code> is answered in the
same form.</p>
"""
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "maxLength": "at most {} characters",
    "maxItems": "at most {}",
}


def page() -> str:
    """Return the page."""
    described = document()
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    links = "".join(f"<li>{_link(each['operationId'], name)}</li>" for name, each in operations)
    routes = "".join(_operation(name, each) for name, each in operations)
    schemas = "".join(_schema(name, each) for name, each in sorted(described["components"]["schemas"].items()))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>perturank API</title><style>{STYLE}</style></head><body>"
        f"<header><h1>perturank {__version__}: API</h1>{INTRODUCTION}</header>"
        f'<nav aria-label="Routes"><ul>{links}</ul></nav>'
        f"<main><h2>Routes</h2>{routes}<h2>What is sent and answered</h2>{schemas}</main></body></html>"
    )


def _link(name: str, text: str) -> str:
    return f'<a href="#{escape(name)}"><code>{escape(text)}</code></a>'


def _prose(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _operation(name: str, operation: Mapping[str, Any]) -> str:
    """Return one route: what it is for, what it takes, what it answers."""
    takes = operation.get("requestBody", {}).get("content", {})
    parts = [
        f'<h3 id="{operation["operationId"]}"><code>{escape(name)}</code></h3>',
        f"<p>{_prose(operation['summary'])}. {_prose(operation.get('description', ''))}</p>",
        _parameters(operation.get("parameters", ())),
        f"<p>Takes {_contents(takes)}</p>" if takes else "",
        _example("Request", takes),
        _answers(operation["responses"]),
        *(_example("Answer", answer.get("content", {})) for answer in operation["responses"].values()),
    ]
    return "".join(parts)


def _parameters(parameters: Any) -> str:
    asked = [each for each in parameters if each["in"] == "query"]
    rows = "".join(f"<li><code>?{each['name']}=</code> {_type(each['schema'])}</li>" for each in asked)
    return f"<ul>{rows}</ul>" if rows else ""


def _contents(content: Mapping[str, Any]) -> str:
    """Return the forms in which something is sent, each with its schema."""
    forms: dict[str, list[str]] = {}
    for kind, said in content.items():
        forms.setdefault(_type(said["schema"]), []).append(f"<code>{kind}</code>")
    return "; or ".join(f"{what} as {' or '.join(kinds)}" for what, kinds in forms.items())


def _answers(responses: Mapping[str, Any]) -> str:
    """Return the answers by status; refusals, which are all of one form, in one line."""
    refused = [status for status, said in responses.items() if "application/problem+json" in said.get("content", {})]
    rows = []
    for status, said in responses.items():
        if status not in refused:
            content = _contents(said.get("content", {})) or "nothing"
            why = "" if said["description"] == "done" else f" ({_prose(said['description'])})"
            rows.append(f"<li><code>{status}</code>{why}: {content}</li>")
    rows.append(f'<li><code>{" ".join(refused)}</code>: <a href="#Problem"><code>Problem</code></a></li>')
    return f"<p>Answers</p><ul>{''.join(rows)}</ul>"


def _example(name: str, content: Mapping[str, Any]) -> str:
    """Return an example, one field a line, or one record."""
    example = content.get("application/json", {}).get("example")
    if example is None:
        return ""
    if isinstance(example, list):
        begin, lines, end = "[", [json.dumps(each) for each in example], "]"
    else:
        begin, lines, end = "{", [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in example.items()], "}"
    fields = ",\n".join(f"  {line}" for line in lines)
    return f"<p>{name}, for example</p><pre>{begin}\n{escape(fields, quote=False)}\n{end}</pre>"


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    """Return what a request or an answer consists of."""
    fields = schema.get("properties", {})
    rows = "".join(_field(each, said, each in schema.get("required", ())) for each, said in fields.items())
    says = _prose(schema.get("description", ""))
    return f'<h3 id="{name}"><code>{name}</code></h3><p>{says}</p><table aria-label="{name}">{rows}</table>'


def _field(name: str, schema: Mapping[str, Any], is_required: bool) -> str:
    if is_required:
        rest = ""
    elif "default" in schema:
        rest = f"; <code>{escape(json.dumps(schema['default']))}</code> unless said"
    else:
        rest = "; may be missing"
    return f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{_type(schema)}{rest}</td></tr>'


def _type(schema: Mapping[str, Any]) -> str:
    """Return a schema in words; parts that have a name are linked."""
    limits = [words.format(f"{schema[name]:,}") for name, words in LIMITS.items() if name in schema]
    within = f" ({', '.join(limits)})" if limits else ""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _link(name, name)
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(each))}</code>" for each in schema["enum"])
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}{within}"
    if schema["type"] == "object":
        values = schema.get("additionalProperties")
        return f"object of {_type(values)}" if isinstance(values, dict) else "object"
    if schema.get("contentEncoding") == "base64" or schema.get("format") == "binary":
        return "bytes"
    return f"{schema['type']}{within}"
