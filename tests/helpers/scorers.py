"""Scorers of one's own, as a user writes them, with their scores in plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from perturank.core import Array, Key

ATTENTION, PERCEPTRON = "helpers.scorers:Attention", "helpers.scorers:Perceptron"


class Attention(eqx.Module):
    """Self-attention: every document is scored by itself and by what it finds in the list."""

    is_row_wise: ClassVar[Literal[False]] = False
    query: Array
    key: Array
    own: Array
    found: Array

    @classmethod
    def start(cls, n_features: int, key: Key) -> Attention:
        query, to, own, found = jax.random.normal(key, (4, n_features, n_features))
        return cls(query, to, own[0] / 4, found[0] / 4)

    def __call__(self, features: Array, mask: Array) -> Array:
        nearness = jnp.where(mask, (features @ self.query) @ (features @ self.key).T, -jnp.inf)
        return features @ self.own + jax.nn.softmax(nearness, axis=1) @ features @ self.found


def attention_scores(scorer: Any, features: np.ndarray) -> np.ndarray:
    """Return the scores of one query's documents, none of them padding; [n, d] -> [n]."""
    query, key, own, found = (
        np.asarray(each, np.float64) for each in (scorer.query, scorer.key, scorer.own, scorer.found)
    )
    scores = []
    for x in features.astype(np.float64):
        weights = np.exp([(x @ query) @ (other @ key) for other in features])
        scores.append(
            x @ own + sum(w * (other @ found) for w, other in zip(weights, features, strict=True)) / weights.sum()
        )
    return np.array(scores)


class Perceptron(eqx.Module):
    """One hidden layer with biases; the activation is a leaf that is no array."""

    is_row_wise: ClassVar[Literal[True]] = True
    layer: Array
    bias: Array
    output: Array
    activation: Callable[[Array], Array]

    @classmethod
    def start(cls, n_features: int, key: Key) -> Perceptron:
        hidden, last = jax.random.split(key)
        layer = jax.random.normal(hidden, (n_features, 6)) / 2
        return cls(layer, jnp.zeros(6), jax.random.normal(last, (6,)) / 2, jax.nn.tanh)

    def __call__(self, features: Array) -> Array:
        return self.activation(features @ self.layer + self.bias) @ self.output


class Square(Perceptron):
    """Returns a column, which is not what a scorer returns."""

    def __call__(self, features: Array) -> Array:
        return super().__call__(features)[:, None]
