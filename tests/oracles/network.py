"""The scoring network of eq:loss's paragraph: f(x; θ) = √m W_L φ(W_{L−1} φ(… φ(W_1 x))), no biases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Layers = Sequence[np.ndarray]  # W_1 [m, d], …, W_{L−1} [m, m], W_L [m]


def activations(layers: Layers, x: np.ndarray) -> list[np.ndarray]:
    """Return x and the outputs of every hidden layer, one unit at a time."""
    outputs = [np.asarray(x, np.float64)]
    for layer in layers[:-1]:
        outputs.append(np.array([max(float(np.dot(unit, outputs[-1])), 0.0) for unit in layer]))
    return outputs


def score(layers: Layers, x: np.ndarray) -> float:
    """Return f(x; θ); m is the width of the last hidden layer."""
    top = activations(layers, x)[-1]
    return float(np.sqrt(len(top)) * sum(w * a for w, a in zip(layers[-1].ravel(), top, strict=True)))


def gradient(layers: Layers, x: np.ndarray) -> list[np.ndarray]:
    """Return ∂f/∂W_1, …, ∂f/∂W_L by hand, from the top down; φ'(0) = 0."""
    outputs = activations(layers, x)
    scale = np.sqrt(len(outputs[-1]))
    gradients = [scale * outputs[-1]]
    back = scale * np.asarray(layers[-1], np.float64).ravel()  # ∂f / ∂(output of the layer below)
    for layer, inputs, output in zip(layers[-2::-1], outputs[-2::-1], outputs[:0:-1], strict=True):
        delta = back * (output > 0)
        gradients.insert(0, np.outer(delta, inputs))
        back = np.asarray(layer, np.float64).T @ delta
    return gradients


def flat(arrays: Layers) -> np.ndarray:
    """Return θ = [vec(W_1), …, vec(W_L)], rows first."""
    return np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])


def unflat(theta: np.ndarray, like: Layers) -> list[np.ndarray]:
    """Return the layers of a parameter vector."""
    ends = np.cumsum([np.size(layer) for layer in like])[:-1]
    return [part.reshape(np.shape(layer)) for part, layer in zip(np.split(theta, ends), like, strict=True)]
