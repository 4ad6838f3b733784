"""Passes over the history: each distinct document is scored once, pairs gather differences and hand slopes back."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from perturank.core import Array
from perturank.parts.history import DOCUMENT_BLOCK, PAIR_BLOCK, History, over_blocks


def rows(array: Array, start: Array, size: int) -> Array:
    """Return `size` rows from `start` on."""
    return lax.dynamic_slice_in_dim(array, start, size)


def history_scores(history: History, score: Callable[[Array], Array], n: int) -> Array:
    """Return `score` of every document of the history, block by block; [D, n]."""

    def block(start: Array, scores: Array) -> Array:
        return lax.dynamic_update_slice_in_dim(scores, score(rows(history.documents, start, DOCUMENT_BLOCK)), start, 0)

    return over_blocks(history.n_documents, DOCUMENT_BLOCK, block, jnp.zeros((history.documents.shape[0], n)))


def over_pairs(history: History, scores: Array, per_pair: Callable[[Array, Array], Array]) -> Array:
    """Return what the pairs hand back to the documents: +r to the first, -r to the second; [D, N].

    `per_pair(start, f)` maps a block's score differences f [B, N] to r [B, N].
    """
    first, second = history.first, history.second

    def block(start: Array, passed: Array) -> Array:
        i, j = rows(first, start, PAIR_BLOCK), rows(second, start, PAIR_BLOCK)
        real = (start + jnp.arange(PAIR_BLOCK) < history.n_pairs)[:, None]
        r = jnp.where(real, per_pair(start, scores[i] - scores[j]), 0.0)
        return passed.at[i].add(r).at[j].add(-r)

    return over_blocks(history.n_pairs, PAIR_BLOCK, block, jnp.zeros_like(scores))


def through_features(history: History, passed: Array) -> Array:
    """Return Xᵀ·passed, the gradient of linear scores; [D, N] -> [d, N]."""

    def block(start: Array, total: Array) -> Array:
        return total + rows(passed, start, DOCUMENT_BLOCK).T @ rows(history.documents, start, DOCUMENT_BLOCK)

    n = passed.shape[1], history.documents.shape[1]
    return over_blocks(history.n_documents, DOCUMENT_BLOCK, block, jnp.zeros(n)).T
