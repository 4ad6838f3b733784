"""A scoring function as ReLU layers: the one form in which every ranker of single documents can leave perturank.

Layers are plain NumPy, so that whoever writes a file of another format needs no JAX. The mean of N networks is one
network N times as wide, whose inner layers are block-diagonal. A linear path beside a network is two units a layer:
s = relu(s) - relu(-s).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Layer(NamedTuple):
    """x ↦ W x + b, cut off below 0 where `relu`: weight [out, in], bias [out]."""

    weight: np.ndarray
    bias: np.ndarray
    relu: bool


Layers = tuple[Layer, ...]  # of which only the last, with a single output, has no ReLU


def linear(weight: np.ndarray) -> Layers:
    """Return x ↦ x·w; [d]."""
    return (Layer(np.asarray(weight, np.float64)[None], np.zeros(1), relu=False),)


def network(hidden: Sequence[np.ndarray], output: np.ndarray, path: np.ndarray | None = None) -> Layers:
    """Return a network without biases, its hidden weights [in, out], and a linear path [d] beside it."""
    inner = tuple(Layer(np.asarray(w, np.float64).T, np.zeros(w.shape[1]), relu=True) for w in hidden)
    layers = (*inner, *linear(output))
    return layers if path is None else plus_linear(layers, path)


def total(parts: Sequence[Layers], shares: Sequence[float]) -> Layers:
    """Return Σ share · f of functions of equal depth, as one that is as wide as all of them together."""
    if len({len(layers) for layers in parts}) != 1:
        raise ValueError("functions of different depth have no common layers")
    *inner, last = zip(*parts, strict=True)
    scaled = [layer.weight * share for layer, share in zip(last, shares, strict=True)]
    bias = sum(layer.bias * share for layer, share in zip(last, shares, strict=True))
    if not inner:
        return (Layer(sum(scaled[1:], scaled[0]), np.asarray(bias), relu=False),)
    first = Layer(np.vstack([each.weight for each in inner[0]]), np.hstack([each.bias for each in inner[0]]), relu=True)
    middle = [
        Layer(_block_diagonal([each.weight for each in level]), np.hstack([each.bias for each in level]), relu=True)
        for level in inner[1:]
    ]
    return (first, *middle, Layer(np.hstack(scaled), np.asarray(bias), relu=False))


def _block_diagonal(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Return the blocks from corner to corner; SciPy's own would cost every process a tenth of its start."""
    whole = np.zeros(np.sum([block.shape for block in blocks], axis=0))
    row = column = 0
    for block in blocks:
        whole[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return whole


def mean(parts: Sequence[Layers]) -> Layers:
    """Return the mean of functions of equal depth."""
    return total(parts, [1 / len(parts)] * len(parts))


def plus_linear(layers: Layers, weight: np.ndarray) -> Layers:
    """Return f(x) + x·w; [d]."""
    w = np.asarray(weight, np.float64)
    if len(layers) == 1:
        return (layers[0]._replace(weight=layers[0].weight + w),)
    first = Layer(np.vstack([w, -w]), np.zeros(2), relu=True)
    through = [Layer(np.eye(2), np.zeros(2), relu=True) for _ in layers[1:-1]]
    path = (first, *through, Layer(np.array([[1.0, -1.0]]), np.zeros(1), relu=False))
    return total([layers, path], [1.0, 1.0])


def of_columns(layers: Layers, matrix: np.ndarray, shift: np.ndarray) -> Layers:
    """Return f(M x + c) as a function of x: M [d, n], c [d]."""
    first, *rest = layers
    return (
        first._replace(weight=first.weight @ matrix, bias=first.bias + first.weight @ np.asarray(shift, np.float64)),
        *rest,
    )


def applied(layers: Layers, rows: np.ndarray) -> np.ndarray:
    """Return the scores; [V, d] -> [V]."""
    values = np.asarray(rows, np.float64)
    for weight, bias, relu in layers:
        values = values @ weight.T + bias
        values = np.maximum(values, 0) if relu else values
    return values[:, 0]
