"""ONNX: one graph from raw features, and the prior if there is one, to scores; NaN is a missing value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from perturank.__about__ import __version__
from perturank.errors import BadInput
from perturank.exports.format import Format
from perturank.exports.formula import Formula
from perturank.parts.standardised import STRAIGHT

OPSET, IR_VERSION = 17, 8  # of 2022: what runs today knows them


def write(name: str, formula: Formula, sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return `model.onnx`: inputs `features` [n, d] and, where there is one, `prior` [n]; output `scores` [n]."""
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ModuleNotFoundError:
        raise BadInput("onnx is not installed", "run: pip install 'perturank[export]'") from None
    graph = _Graph(helper)
    columns = formula.columns
    d = len(columns) - formula.has_prior
    x = "features"
    if formula.has_prior:
        column = graph.add("Unsqueeze", "prior", graph.constant(np.array([1], np.int64)))
        x = graph.add("Concat", x, column, axis=1)
    # Only what a scale needs is in the graph: features that come as they are go straight into the first layer.
    if any((each.location, each.spread, each.bends, each.missing) != (0, 1, False, 0) for each in columns):
        x = _standardised(graph, x, formula)
    for weight, bias, relu in formula.layers:
        w, b = (graph.constant(array.astype(np.float32)) for array in (weight, bias))
        x = graph.add("Gemm", x, w, b, transB=1)
        x = graph.add("Relu", x) if relu else x
    graph.add("Squeeze", x, graph.constant(np.array([1], np.int64)), output="scores")

    floats = onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("features", floats, ["n", d])]
    inputs += [helper.make_tensor_value_info("prior", floats, ["n"])] if formula.has_prior else []
    outputs = [helper.make_tensor_value_info("scores", floats, ["n"])]
    initializers = [numpy_helper.from_array(array, label) for label, array in graph.constants.items()]
    made = helper.make_model(
        helper.make_graph(graph.nodes, name, inputs, outputs, initializers),
        producer_name="perturank",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    helper.set_model_props(made, {"features": "\n".join(each.name for each in columns[:d])})
    onnx.checker.check_model(made, full_check=True)
    return {"model.onnx": made.SerializeToString()}


class _Graph:
    """Nodes and constants of a graph under way."""

    def __init__(self, helper: Any) -> None:
        self._helper = helper
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, array: np.ndarray) -> str:
        """Return the name of a new constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Return the name of what a new node gives."""
        name = output or f"v{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, inputs, [name], **attributes))
        return name


def _standardised(graph: _Graph, x: str, formula: Formula) -> str:
    """Return z of every column."""

    def row(field: str, dtype: Any = np.float32) -> str:
        return graph.constant(np.array([getattr(column, field) for column in formula.columns], dtype))

    is_missing = graph.add("IsNaN", x)
    given = graph.add("Where", is_missing, row("location"), x)
    z = graph.add("Div", graph.add("Sub", given, row("location")), row("spread"))
    if any(column.bends for column in formula.columns):
        edge, beyond, one = (graph.constant(np.array(v, np.float32)) for v in (STRAIGHT, STRAIGHT - 1, 1.0))
        near = graph.add("Clip", z, graph.constant(np.array(-STRAIGHT, np.float32)), edge)
        far = [
            graph.add("Log", graph.add("Max", graph.add("Sub", side, beyond), one)) for side in (z, graph.add("Neg", z))
        ]
        bent = graph.add("Add", near, graph.add("Sub", *far))
        z = graph.add("Where", row("bends", np.bool_), bent, z)
    return graph.add("Where", is_missing, row("missing"), z)


FORMATS = [
    Format(
        "onnx",
        "ONNX: features and prior to scores",
        write,
        default_prior="prior",
        media_type="application/octet-stream",
    )
]
