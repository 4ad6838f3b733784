"""Which orders are certain: unanimous ensembles, or score differences outside a confidence width."""

from __future__ import annotations

from functools import reduce

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import lax

from perturank.core import Array

ROWS = 8


def unanimous(scores: Array, mask: Array) -> Array:
    """Return C[i, j]: all N rankers put document i before j (def:certain); [V, N] -> [V, V].

    Scores are compared, not σ of their difference, which rounds; a tie in any ranker is uncertainty.
    """
    agree = reduce(jnp.logical_and, (s[:, None] > s[None, :] for s in scores.T))
    return agree & mask[:, None] & mask[None, :]


def n_unanimous_before(scores: Array, mask: Array) -> Array:
    """Return how many documents certainly precede each: those that beat it in every score; [V, N] -> [V].

    A few rows of the V × V comparisons at a time: none of it is stored.
    """
    v = scores.shape[0]
    columns = tuple(scores.T)
    uppers = [
        jnp.pad(jnp.where(mask, column, -jnp.inf), (0, -v % ROWS), constant_values=-jnp.inf).reshape(-1, ROWS)
        for column in columns
    ]

    def add_rows(step: Array, before: Array) -> Array:
        for row in range(ROWS):
            beats = (upper[step, row] > column for upper, column in zip(uppers, columns, strict=True))
            before = before + reduce(jnp.logical_and, beats).astype(jnp.int32)
        return before

    n_rows = jnp.max(jnp.where(mask, jnp.arange(1, v + 1), 0))
    counts = lax.fori_loop(0, (n_rows + ROWS - 1) // ROWS, add_rows, jnp.zeros(v, jnp.int32))
    return jnp.where(mask, counts, 0)


def confident(scores: Array, widths: Array, mask: Array) -> Array:
    """Return C[i, j]: σ(f_i - f_j) exceeds 1/2 by more than the pair's width (eq:cb); [V], [V, V] -> [V, V]."""
    above = jax.nn.sigmoid(scores[:, None] - scores[None, :]) - widths > 0.5
    return above & mask[:, None] & mask[None, :]


def doubtful(scores: Array, sure: Array, mask: Array, k: int) -> Array:
    """Return D[i, j]: it matters for the top k, and is not sure, whether i certainly precedes j; [V], [V, V] -> [V, V].

    All certain predecessors are placed first: with k sure ones a document never stands in the top k.
    """
    candidate = mask & (jnp.sum(sure, axis=0) < k)
    return (scores[:, None] > scores[None, :]) & ~sure & mask[:, None] & candidate[None, :]


def distances(kernel: Array) -> Array:
    """Return ‖g_i - g_j‖ in A⁻¹ as √(K_ii + K_jj - 2 K_ij), with K = G A⁻¹ Gᵀ; [V, V] -> [V, V]."""
    own = jnp.diagonal(kernel)
    return jnp.sqrt(jnp.maximum(own[:, None] + own[None, :] - 2 * kernel, 0.0))


def kernel_full(features: Array, covariance: Array) -> Array:
    """Return G A⁻¹ Gᵀ for rows G [V, p] and the full A [p, p] of lemma:cb."""
    factor = jnp.linalg.cholesky(covariance)
    half = jsl.solve_triangular(factor, features.T, lower=True)
    return half.T @ half


def kernel_diagonal(features: Array, diagonal: Array) -> Array:
    """Return G A⁻¹ Gᵀ where only the diagonal of A [p] is kept."""
    return (features / diagonal) @ features.T


def closure(certain: Array) -> Array:
    """Return the transitive closure: i before k and k before j make i before j; [V, V]."""
    n_doublings = max(certain.shape[0] - 1, 1).bit_length()
    reach = certain
    for _ in range(n_doublings):
        step = reach.astype(jnp.float32)
        reach = reach | (step @ step > 0.5)
    return reach


def uncertain_share(certain: Array, mask: Array) -> Array:
    """Return the share of pairs without a certain order; 0 where there is no pair."""
    n = jnp.sum(mask)
    pairs = n * (n - 1) / 2
    return jnp.where(pairs > 0, 1 - jnp.sum(certain) / jnp.maximum(pairs, 1), 0.0)


def exploration_factor(
    log_det_ratio: Array, n_features: int, delta: Array | float, noise_bound: Array | float
) -> Array:
    """Return α_t = 2 (R √log(det A / (δ² det λI)) + d) of lemma:cb, with k_μ = c_μ = 1/4, as for scores near 0."""
    return 2 * (jnp.sqrt(noise_bound**2 * (log_det_ratio - 2 * jnp.log(delta))) + n_features)
