"""Solr LTR: a features file, and a `LinearModel` or a `NeuralNetworkModel`.

A feature that is a function query is never negative: Lucene takes a negative function for 0. So a column that is
standardised is two features, how far it lies above its location and how far below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from perturank.errors import BadInput
from perturank.exports.format import Format, Request, check_names
from perturank.exports.formula import Column, Formula
from perturank.layers import Layers, of_columns
from perturank.parts.standardised import STRAIGHT

LTR = "org.apache.solr.ltr"


def write(name: str, formula: Formula, sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return `features.json` and `model.json`, the bodies of the two uploads."""
    check_names(formula, "Solr LTR")
    features, place, shift = [], np.zeros((len(formula.columns), 0)), np.zeros(len(formula.columns))
    for i, column in enumerate(formula.columns):
        source = sources.get(column.name)
        unit = np.eye(len(formula.columns))[:, [i]]
        if source is None and not column.bends and column.absent == 0:
            features.append(_feature(name, column.name, "FieldValueFeature", field=column.name))
            place = np.hstack([place, unit / column.spread])
            shift[i] = -column.location / column.spread
        else:
            functions = _functions(column, source)
            features += [_feature(name, label, "SolrFeature", q=f"{{!func}}{f}") for label, f in functions]
            place = np.hstack([place, unit, -unit])
    layers = of_columns(formula.layers, place, shift)
    if formula.is_linear:
        bias = f"{name}_bias"
        features.append(_feature(name, bias, "ValueFeature", value=1.0))
        labels = [feature["name"] for feature in features]
        weights = [*layers[0].weight[0].tolist(), layers[0].bias.item()]
        model = _model(name, "LinearModel", labels, weights=dict(zip(labels, weights, strict=True)))
    else:
        labels = [feature["name"] for feature in features]
        model = _model(name, "NeuralNetworkModel", labels, layers=_layers(layers))
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise BadInput(f"two features would be named {twice!r}", "rename the feature, or the model")
    return {"features.json": features, "model.json": model}


def _feature(store: str, name: str, kind: str, **params: Any) -> dict[str, Any]:
    return {"store": store, "name": name, "class": f"{LTR}.feature.{kind}", "params": params}


def _model(name: str, kind: str, features: list[str], **params: Any) -> dict[str, Any]:
    named = [{"name": feature} for feature in features]
    return {"store": name, "name": name, "class": f"{LTR}.model.{kind}", "features": named, "params": params}


def _layers(layers: Layers) -> list[dict[str, Any]]:
    return [
        {"matrix": weight.tolist(), "bias": bias.tolist(), "activation": "relu" if relu else "identity"}
        for weight, bias, relu in layers
    ]


def _functions(column: Column, source: Any) -> list[tuple[str, str]]:
    """Return how far a column lies above its location, and how far below: names and functions."""
    if source is not None and not isinstance(source, str):
        raise BadInput(f"the source of feature {column.name!r} is {source!r}", "it must be a function, as text")
    value = source or f"def({column.name},{column.absent!r})"
    above = f"div(sub({value},{column.location!r}),{column.spread!r})"
    below = f"div(sub({column.location!r},{value}),{column.spread!r})"
    return [(f"{column.name}_above", _cut(above, column)), (f"{column.name}_below", _cut(below, column))]


def _cut(z: str, column: Column) -> str:
    if not column.bends:
        return f"max({z},0)"
    return f"sum(min(max({z},0),{STRAIGHT:g}),ln(max(sub({z},{STRAIGHT - 1:g}),1)))"


def install(name: str, files: Mapping[str, Any], replace: bool) -> list[Request]:
    """Return the two uploads to a collection; what is there under the same names must be deleted first."""
    stores = "/schema/feature-store", "/schema/model-store"
    steps = [Request("PUT", stores[0], files["features.json"]), Request("PUT", stores[1], files["model.json"])]
    if not replace:
        return steps
    deletions = [Request("DELETE", f"{store}/{name}", also=(404,)) for store in reversed(stores)]
    return [*deletions, *steps]


def check(name: str) -> Request:
    """Return the request that shows the installed models."""
    return Request("GET", "/schema/model-store")


FORMATS = [Format("solr", "Solr LTR: features, LinearModel or NeuralNetworkModel", write, install=install, check=check)]
