"""Elasticsearch LTR and OpenSearch LTR: a feature set and a `model/linear`.

A feature is the score of a query, and `model/linear` is a weighted sum of features. A column that bends is a feature of
its own, a `derived_expression` of the raw one. The plugin has no intercept: it is the weight of a query that scores 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from perturank.errors import BadInput
from perturank.exports.format import Format, Request, check_names
from perturank.exports.formula import Column, Formula
from perturank.parts.standardised import STRAIGHT

PARAMETER = re.compile(r"{{#?(?:toJson}}{{)?(\w+)}}")


def write(name: str, formula: Formula, sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return `featureset.json` and `model.json`, the bodies of the plugin's two requests."""
    if not formula.is_linear:
        raise BadInput(
            "model/linear is a weighted sum of features, and this ranker is a network",
            "export it to solr or onnx, or learn a linear ranker such as p2linrank",
        )
    check_names(formula, "Elasticsearch LTR")
    (layer,) = formula.folded()
    bias = f"{name}_bias"
    features = [_feature(column, sources.get(column.name)) for column in formula.columns]
    features += [_derived(column) for column in formula.columns if column.bends]
    features.append(_mustache(bias, {"match_all": {}}))
    weights = {
        f"{column.name}_scaled" if column.bends else column.name: weight
        for column, weight in zip(formula.columns, layer.weight[0].tolist(), strict=True)
    }
    weights[bias] = layer.bias.item()
    labels = [feature["name"] for feature in features]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise BadInput(f"two features would be named {twice!r}", "rename the feature, or the model")
    return {
        "featureset.json": {"featureset": {"name": name, "features": features}},
        "model.json": {"model": {"name": name, "model": {"type": "model/linear", "definition": json.dumps(weights)}}},
    }


def _feature(column: Column, source: Any) -> dict[str, Any]:
    """Return the raw feature: the score of the source, or the value of the field."""
    if source is None:
        value = {"field_value_factor": {"field": column.name, "missing": column.absent}}
        source = {"function_score": {"query": {"match_all": {}}, "functions": [value], "boost_mode": "replace"}}
    if not isinstance(source, dict):
        raise BadInput(f"the source of feature {column.name!r} is {source!r}", "it must be a query, as a JSON object")
    return _mustache(column.name, source)


def _mustache(name: str, template: Mapping[str, Any]) -> dict[str, Any]:
    parameters = sorted(set(PARAMETER.findall(json.dumps(template))))
    return {"name": name, "params": parameters, "template_language": "mustache", "template": template}


def _derived(column: Column) -> dict[str, Any]:
    """Return the standardised feature as an expression, without a branch: min, max and ln do."""
    z, s = f"(({column.name} - ({column.location!r})) / {column.spread!r})", f"{STRAIGHT:g}"
    far = f"ln(max({z} - {STRAIGHT - 1:g}, 1)) - ln(max(-{z} - {STRAIGHT - 1:g}, 1))"
    expression = f"max(min({z}, {s}), -{s}) + {far}"
    return {
        "name": f"{column.name}_scaled",
        "params": [],
        "template_language": "derived_expression",
        "template": expression,
    }


def install(name: str, files: Mapping[str, Any], replace: bool) -> list[Request]:
    """Return the requests that install both; a model cannot be changed, only deleted and made again."""
    steps = [
        Request("PUT", "/_ltr", also=(400,)),  # the store is there already
        Request("POST", f"/_ltr/_featureset/{name}", files["featureset.json"]),
    ]
    if replace:
        steps.append(Request("DELETE", f"/_ltr/_model/{name}", also=(404,)))
    return [*steps, Request("POST", f"/_ltr/_featureset/{name}/_createmodel", files["model.json"])]


def check(name: str) -> Request:
    """Return the request that shows the installed model."""
    return Request("GET", f"/_ltr/_model/{name}")


FORMATS = [
    Format("elasticsearch", "Elasticsearch LTR: feature set and model/linear", write, install=install, check=check),
    Format("opensearch", "OpenSearch LTR: feature set and model/linear", write, install=install, check=check),
]
