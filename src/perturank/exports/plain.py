"""A plain JSON form: columns and layers as numbers, for whoever writes the twenty lines of a scorer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from perturank.exports.format import Format
from perturank.exports.formula import Formula
from perturank.parts.standardised import STRAIGHT

VERSION = 1


def write(name: str, formula: Formula, sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return `model.json`."""
    layers = [{"weight": weight.tolist(), "bias": bias.tolist(), "relu": relu} for weight, bias, relu in formula.layers]
    columns = [asdict(column) for column in formula.columns]
    about = {"format": "perturank layers", "version": VERSION, "name": name, "has_prior": formula.has_prior}
    return {"model.json": {**about, "straight": STRAIGHT, "columns": columns, "layers": layers}}


FORMATS = [Format("json", "columns and layers as plain numbers", write, default_prior="prior")]
