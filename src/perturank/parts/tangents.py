"""Gradients of scores without their p entries: per layer a gradient is an outer product, input ⊗ backward vector."""

from __future__ import annotations

from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp

from perturank.core import Array
from perturank.parts import scoring


class Tangents(eqx.Module):
    """g(x; θ) of V documents: layer by layer the input a [V, n] and the backward vector δ [V, m] of a δᵀ."""

    inputs: tuple[Array, ...]
    backwards: tuple[Array, ...]

    def take(self, rows: Array) -> Tangents:
        """Return those of these documents."""
        return jax.tree.map(lambda leaf: leaf[rows], self)

    def scaled(self, factor: Array | float) -> Tangents:
        """Return the gradients times a number, or times one number a document [V, 1]."""
        return Tangents(self.inputs, tuple(factor * back for back in self.backwards))

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """The shape [n, m] of every layer's parameters."""
        return tuple((a.shape[1], back.shape[1]) for a, back in zip(self.inputs, self.backwards, strict=True))

    @property
    def n_parameters(self) -> int:
        """The length p of a gradient."""
        return sum(n * m for n, m in self.shapes)

    def explicit(self) -> Array:
        """Return the gradients with all their entries; [V, p]."""
        outer = [a[:, :, None] * back[:, None, :] for a, back in zip(self.inputs, self.backwards, strict=True)]
        return jnp.concatenate([layer.reshape(layer.shape[0], -1) for layer in outer], axis=1)


class Differences(eqx.Module):
    """g_w - g_l of pairs of documents, kept as the two."""

    winner: Tangents
    loser: Tangents

    def take(self, rows: Array) -> Differences:
        """Return those of these pairs."""
        return Differences(self.winner.take(rows), self.loser.take(rows))

    def explicit(self) -> Array:
        """Return the differences with all their entries; [P, p]."""
        return self.winner.explicit() - self.loser.explicit()


def tangents(scorer: scoring.Scorer, features: Array) -> Tangents:
    """Return g(x; θ) of every document.

    A network's layers give outer products; any other scorer is one layer whose input is the whole
    gradient.
    """
    if not isinstance(scorer, scoring.Network):
        return Tangents((scoring.document_gradients(scorer, features),), (jnp.ones((features.shape[0], 1)),))
    _, kept = scorer.forward(features)
    ones = jnp.ones(features.shape[0])
    last = scorer.scale * kept[-1]
    inputs = (features, *kept[:-1], last if scorer.shortcut is None else jnp.concatenate([last, features], axis=1))
    return Tangents(inputs, (*scorer.backward_vectors(kept, ones), ones[:, None]))


def inner(one: Tangents | Differences, other: Tangents | Differences) -> Array:
    """Return all inner products of gradients, Σ_l (a_l·a′_l)(δ_l·δ′_l); [V], [V′] -> [V, V′]."""
    if isinstance(one, Differences):
        return inner(one.winner, other) - inner(one.loser, other)
    if isinstance(other, Differences):
        return inner(one, other.winner) - inner(one, other.loser)
    layers = zip(one.inputs, one.backwards, other.inputs, other.backwards, strict=True)
    return reduce(jnp.add, ((a @ a_.T) * (back @ back_.T) for a, back, a_, back_ in layers))
