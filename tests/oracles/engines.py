"""What search engines make of an exported model, from their documentation: Solr LTR and Elasticsearch LTR.

Documents are fields by name, [n] each, in which NaN is a missing value. Engines compute features and scores in float32.
A Lucene expression is computed in float64 and its value then cut to float32; a function query takes a negative value
for 0.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

FLOAT = np.float32
Fields = Mapping[str, np.ndarray]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "sub": np.subtract,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "ln": np.log,
}


def solr_function(text: str, documents: Fields) -> np.ndarray:
    """Return the values of a function query; [n]."""
    found = re.fullmatch(r"(\w+)\((.*)\)", text)
    if found is None:
        return np.asarray(np.nan_to_num(documents[text]) if text in documents else float(text), FLOAT)
    name, inside = found.groups()
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(inside):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(inside[start:i])
            start = i + 1
    parts.append(inside[start:])
    if name == "def":
        values = documents[parts[0]]
        return np.where(np.isnan(values), float(parts[1]), values).astype(FLOAT)
    return np.asarray(FUNCTIONS[name](*(solr_function(part, documents) for part in parts)), FLOAT)


def solr_features(features: Sequence[Mapping[str, Any]], documents: Fields) -> dict[str, np.ndarray]:
    """Return the values of a feature store; [n] each."""
    n = len(next(iter(documents.values())))
    values: dict[str, np.ndarray] = {}
    for feature in features:
        kind, params = feature["class"].rpartition(".")[2], feature["params"]
        if kind == "ValueFeature":
            values[feature["name"]] = np.full(n, params["value"], FLOAT)
        elif kind == "FieldValueFeature":
            values[feature["name"]] = np.nan_to_num(documents[params["field"]]).astype(FLOAT)
        else:
            found = solr_function(params["q"].removeprefix("{!func}"), documents)
            values[feature["name"]] = np.maximum(found, FLOAT(0))
    return values


def solr_scores(model: Mapping[str, Any], values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the scores of a LinearModel or a NeuralNetworkModel; [n]."""
    names = [each["name"] for each in model["features"]]
    rows = np.stack([values[name] for name in names], axis=1)
    if model["class"].endswith("LinearModel"):
        return rows @ np.array([model["params"]["weights"][name] for name in names], FLOAT)
    for layer in model["params"]["layers"]:
        rows = rows @ np.array(layer["matrix"], FLOAT).T + np.array(layer["bias"], FLOAT)
        rows = {"relu": lambda v: np.maximum(v, 0), "identity": lambda v: v}[layer["activation"]](rows)
    assert rows.shape[1] == 1
    return rows[:, 0]


def ltr_features(features: Sequence[Mapping[str, Any]], documents: Fields) -> dict[str, np.ndarray]:
    """Return the values of a feature set of Elasticsearch LTR; [n] each."""
    n = len(next(iter(documents.values())))
    values: dict[str, np.ndarray] = {}
    for feature in features:
        template = feature["template"]
        if feature["template_language"] == "derived_expression":
            found = _expression(ast.parse(template, mode="eval").body, values)
        elif "match_all" in template:
            found = np.ones(n)
        else:
            (function,) = template["function_score"]["functions"]
            factor = function["field_value_factor"]
            found = np.nan_to_num(documents[factor["field"]], nan=factor["missing"])
            assert (found >= 0).all(), "field_value_factor must not be negative"
        values[feature["name"]] = np.asarray(found, FLOAT)
    return values


def _expression(node: ast.expr, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the values of a Lucene expression; the operators and functions used here are written as in Python."""
    match node:
        case ast.Constant(value=float() | int() as value):
            return np.asarray(value, np.float64)
        case ast.Name(id=name):
            return values[name].astype(np.float64)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_expression(operand, values)
        case ast.BinOp(left=left, op=op, right=right):
            operators: dict[type, Callable[..., Any]] = {ast.Add: np.add, ast.Sub: np.subtract, ast.Div: np.divide}
            return operators[type(op)](_expression(left, values), _expression(right, values))
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name](*(_expression(each, values) for each in args))
    raise AssertionError(ast.dump(node))


def ltr_scores(model: Mapping[str, Any], values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return Σ weight · feature of a model/linear; [n]."""
    assert model["type"] == "model/linear"
    weights = json.loads(model["definition"])
    terms = np.stack([FLOAT(weight) * values[name] for name, weight in weights.items()])
    return np.asarray(np.sum(terms, axis=0, dtype=FLOAT))
