"""Gradients of the pairwise objective over the history, for any scorer; they know no clicks and no rankings."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from perturank.core import Array, Key
from perturank.hyperparameters import is_zero
from perturank.parts import draws, scoring
from perturank.parts.history import DOCUMENT_BLOCK, PAIR_BLOCK, History
from perturank.parts.objective import Loss, slope
from perturank.parts.passes import over_pairs, rows
from perturank.parts.scoring import Scorer


def full_gradient(history: History, theta: Scorer, theta_0: Scorer | None, targets: Array, kind: Loss) -> Scorer:
    """Return the gradient of the whole history's loss in every scorer's parameters (eq:obj without its regulariser).

    Scores are those of θ, less those of θ₀ where it is given. The documents are passed over twice,
    block by block: forward to all scores, and, when all slopes are known, back.
    """
    n_blocks = (history.n_documents + DOCUMENT_BLOCK - 1) // DOCUMENT_BLOCK

    def of_block(i: Array) -> Array:
        return rows(history.documents, i * DOCUMENT_BLOCK, DOCUMENT_BLOCK)

    def forward(i: Array, state: tuple[Array, Any]) -> tuple[Array, Any]:
        scores, kept = state
        found, new = scoring.forward(theta, of_block(i))
        if theta_0 is not None:
            found = found - scoring.ensemble_scores(theta_0, of_block(i))
        scores = lax.dynamic_update_slice_in_dim(scores, found, i * DOCUMENT_BLOCK, 0)
        return scores, jax.tree.map(lambda all_, one: lax.dynamic_update_index_in_dim(all_, one, i, 0), kept, new)

    # Activities are written before they are read, whatever was there; XLA clears one of two equal
    # buffers and copies it for the other, so each has a filling of its own.
    capacity = history.documents.shape[0]
    activities, shape = jax.tree.flatten(
        jax.eval_shape(scoring.forward, theta, history.documents[:DOCUMENT_BLOCK])[1],
    )
    kept = jax.tree.unflatten(
        shape, [jnp.full((capacity // DOCUMENT_BLOCK, *a.shape), layer, a.dtype) for layer, a in enumerate(activities)]
    )
    scores, kept = lax.fori_loop(0, n_blocks, forward, (jnp.zeros((capacity, targets.shape[1])), kept))

    def at(start: Array, f: Array) -> Array:
        return slope(f, rows(history.weight, start, PAIR_BLOCK)[:, None], rows(targets, start, PAIR_BLOCK), kind)

    passed = over_pairs(history, scores + history.priors[:, None], at)

    def backward(i: Array, total: Scorer) -> Scorer:
        slopes = rows(passed, i * DOCUMENT_BLOCK, DOCUMENT_BLOCK)
        gradient = scoring.backward(theta, of_block(i), jax.tree.map(lambda a: a[i], kept), slopes)
        return jax.tree.map(jnp.add, total, gradient)

    return lax.fori_loop(0, n_blocks, backward, jax.tree.map(jnp.zeros_like, eqx.filter(theta, eqx.is_array)))


class Sample(NamedTuple):
    """Pairs of a round: their slots [q], how often each counts [q], and whether they are all there are."""

    slots: Array
    scale: Array
    is_whole: Array

    @classmethod
    def drawn(cls, history: History, newest: Array, budget: int, key: Key) -> Sample:
        """Return at most `budget` pairs whose weighted sums are unbiased estimates of those over all pairs.

        The newest pairs (slots [q]) are always among them; the rest are drawn uniformly, with
        replacement, from all pairs and weighted up. While all pairs fit, all are taken.
        """
        room, fits = _room(newest, budget), cls.is_all(history, newest, budget)
        drawn = jax.random.randint(key, (room,), 0, jnp.maximum(history.n_pairs, 1))
        rest = jnp.where(fits, jnp.arange(room), drawn)
        scale = jnp.where(fits, 1.0, history.n_pairs / room) * (rest < history.n_pairs)
        scale = jnp.where(jnp.any(rest[:, None] == newest[None, :], axis=1), 0.0, scale)
        repeated = jnp.any(jnp.tril(newest[:, None] == newest[None, :], -1), axis=1)
        newest_scale = jnp.where(repeated | (newest >= history.weight.shape[0]), 0.0, 1.0)
        return cls(jnp.concatenate([newest, rest]), jnp.concatenate([newest_scale, scale]), fits)

    @staticmethod
    def is_all(history: History, newest: Array, budget: int) -> Array:
        """Return whether a sample beside the newest pairs holds all pairs there are."""
        return history.n_pairs <= _room(newest, budget)

    def ends(self, history: History) -> Array:
        """Return the document slots of the first of each pair, then of the second; [2q]."""
        return jnp.concatenate([history.first[self.slots], history.second[self.slots]])


def _room(newest: Array, budget: int) -> int:
    return max(budget - newest.shape[0], 1)


def differences(values: Array) -> Array:
    """Return the value of the first document of each pair less that of the second; [2q, …] -> [q, …]."""
    q = values.shape[0] // 2
    return values[:q] - values[q:]


def sampled_gradient(
    history: History,
    newest: Array,
    budget: int,
    theta: Scorer,
    theta_0: Scorer | None,
    noise_std: Array | float,
    key: Key,
    kind: Loss,
) -> Scorer:
    """Return an unbiased estimate of `full_gradient` from at most `budget` pairs; exact while all pairs fit."""
    keys = jax.random.split(key)
    sample = Sample.drawn(history, newest, budget, keys[0])
    slots, ends = sample.slots, sample.ends(history)
    shown = history.documents[ends]
    scores, kept = scoring.forward(theta, shown)
    weight = history.weight[slots][:, None]
    noise = (
        noise_std * jnp.sqrt(weight) * draws.normal(keys[1], (slots.shape[0], scores.shape[1]))
        if history.frozen is None
        else history.frozen[slots]
    )
    if theta_0 is not None:
        scores = scores - scoring.ensemble_scores(theta_0, shown)
    f = differences(scores + history.priors[ends][:, None])
    r = sample.scale[:, None] * slope(f, weight, history.preferred[slots][:, None] + noise, kind)
    return scoring.backward(theta, shown, kept, jnp.concatenate([r, -r]))


def pull_to_start(
    theta: Scorer, theta_0: Scorer, strength: Array | float, noise_std: Array | float, key: Key
) -> Scorer:
    """Return the gradient of strength/2 ‖θ - θ₀ + γ/√strength‖², with noise γ for the appendix's variant."""
    leaves, shape = jax.tree.flatten(theta)
    pulls = []
    for leaf, start, k in zip(leaves, jax.tree.leaves(theta_0), jax.random.split(key, len(leaves)), strict=True):
        noise = 0.0 if is_zero(noise_std) else strength**0.5 * noise_std * jax.random.normal(k, leaf.shape)
        pulls.append(strength * (leaf - start) + noise)
    return jax.tree.unflatten(shape, pulls)
