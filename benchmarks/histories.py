"""Rankers at a late round without the rounds: histories learned by a small network, moved into the ranker measured.

A network of 8 units on 32 pairs a round shows lists much like those of the full ranker, and leaves
a history of nearly the same size (see docs/benchmark.md) at more than ten times its speed.

This is the one place of the benchmark that knows how rankers keep their history.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.loop import TOP, fresh
from perturank import catalogue, storage
from perturank.core import Array, Interaction, Query, Ranker, with_room

NAME = "p2neurrank"
SMALL: dict[str, Any] = {"widths": (8,), "budget": 32, "learning_rate": 3e-3, "n_steps": 1}


def small(n_features: int) -> Ranker:
    """Return the small network that fills histories."""
    return fresh(NAME, n_features, catalogue.published(NAME).settings.changed(**SMALL))


def moved(filled: Any, into: Any) -> Any:
    """Return the ranker with the history of the small network in place of its own."""
    arrays = _copied(into)
    arrays |= {name: array for name, array in _copied(filled).items() if name.startswith(".history")}
    if ".gram" in arrays:
        arrays[".gram"] = _gram(filled.history)
    return storage.restored(arrays, storage.header_of(into), "the filled ranker")


def sizes(filled: Any) -> tuple[int, int]:
    """Return how many distinct documents and pairs it remembers."""
    return int(filled.history.n_documents), int(filled.history.n_pairs)


def remembering(n_documents: int, n_features: int) -> Any:
    """Return a small network that has seen so many documents, in lists of ten of which every other was clicked."""
    n_lists = max(1, n_documents // TOP)
    rows = jax.random.uniform(jax.random.key(0), (n_lists * TOP, n_features))
    clicks = jnp.arange(TOP) % 2 == 0
    ranker: Any = with_room(small(n_features), n_lists, TOP)

    @jax.jit
    def filled(arrays: Any, rows: Array) -> Any:
        def one(i: Array, arrays: Any) -> Any:
            number = (i * TOP + jnp.arange(TOP)).astype(jnp.uint32)
            ids = jnp.stack([number, jnp.zeros_like(number)], axis=1)
            features = jax.lax.dynamic_slice_in_dim(rows, i * TOP, TOP)
            shown = Query(features, jnp.ones(TOP, bool), ids, jnp.zeros(TOP))
            learned = eqx.combine(arrays, static).learn(Interaction(shown, clicks, None), jax.random.key(0))
            return eqx.filter(learned, eqx.is_array)

        return jax.lax.fori_loop(0, n_lists, one, arrays)

    arrays, static = eqx.partition(ranker, eqx.is_array)
    return eqx.combine(filled(arrays, rows), static)


def _copied(ranker: Any) -> dict[str, np.ndarray]:
    """Return the ranker's arrays, safe from a loop that writes over them."""
    return {name: np.array(array) for name, array in storage.arrays_of(ranker).items()}


def _gram(history: Any) -> np.ndarray:
    """Return Σ w x xᵀ over the history's pairs, as linear rankers keep it."""
    n = int(history.n_pairs)
    documents, weight = np.asarray(history.documents), np.asarray(history.weight[:n])
    x = documents[np.asarray(history.first[:n])] - documents[np.asarray(history.second[:n])]
    return np.asarray((x * weight[:, None]).T @ x)
