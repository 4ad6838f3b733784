"""f(x; θ) for many documents at once, and Σ r_i ∂f(x_i)/∂θ by hand; θ is one flat vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Linear:
    """f(x; θ) = xᵀθ."""

    def __init__(self, n_features: int) -> None:
        self.theta = np.zeros(n_features)

    def scores(self, x: np.ndarray) -> np.ndarray:
        return x @ self.theta

    def scores_at(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        return x @ theta

    def gradient(self, x: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Return Σ r_i ∂f(x_i)/∂θ; [V, d], [V] -> [p]."""
        return r @ x

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return ∂f(x_i)/∂θ; [V, p]."""
        return x


class Network:
    """f(x; θ) = scale · w φ(… φ(x W_1)), without biases; W_l is [inputs, outputs]."""

    def __init__(self, hidden: Sequence[np.ndarray], output: np.ndarray, scale: float = 1.0) -> None:
        self.shapes = [*(np.shape(w) for w in hidden), np.shape(output)]
        self.theta = np.concatenate([np.ravel(w) for w in [*hidden, output]]).astype(np.float64)
        self.scale = scale

    @classmethod
    def drawn(cls, n_features: int, widths: Sequence[int], rng: np.random.Generator, start: str = "zero") -> Network:
        """Return a network at θ₀: its last layer is 0, or drawn and scaled by √m (`centred`)."""
        inputs = [n_features, *widths]
        hidden = [
            rng.normal(size=(n, m)) * np.sqrt(2 / (n if start == "zero" else m))
            for n, m in zip(inputs, widths, strict=False)
        ]
        last = widths[-1]
        if start == "zero":
            return cls(hidden, np.zeros(last))
        return cls(hidden, rng.normal(size=last) / np.sqrt(last), np.sqrt(last))

    def layers(self, theta: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(theta, ends), self.shapes, strict=True)]

    def scores(self, x: np.ndarray) -> np.ndarray:
        return self.scores_at(self.theta, x)

    def scores_at(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.scale * (self.last_hidden(theta, x) @ self.layers(theta)[-1]))

    def last_hidden(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the activity of the last hidden layer; [V, d] -> [V, m]."""
        for w in self.layers(theta)[:-1]:
            x = np.maximum(x @ w, 0)
        return x

    def gradient(self, x: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Return Σ r_i ∂f(x_i)/∂θ; [V, d], [V] -> [p]."""
        *hidden, output = self.layers(self.theta)
        inputs = [x]
        for w in hidden:
            inputs.append(np.maximum(inputs[-1] @ w, 0))
        parts = [self.scale * (r @ inputs[-1])]
        back = self.scale * np.outer(r, output)
        for w, below, above in zip(hidden[::-1], inputs[-2::-1], inputs[:0:-1], strict=True):
            back = back * (above > 0)
            parts.insert(0, (below.T @ back).ravel())
            back = back @ w.T
        return np.concatenate(parts)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return ∂f(x_i)/∂θ; [V, p]."""
        return np.array([self.gradient(row[None], np.ones(1)) for row in x])


def scorer(n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> Linear | Network:
    """Return the scorer that these settings ask for."""
    if "widths" not in settings:
        return Linear(n_features)
    return Network.drawn(n_features, settings["widths"], rng, settings.get("start", "zero"))
