"""Several interactions at once: rankers with a history fit once for all of them, the others learn one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from perturank.core import Array, FitsBatches, Forgets, Interaction, Key, Ranker

State = TypeVar("State")
R = TypeVar("R")


def remembered(ranker: R, key: Key, learned: int) -> R:
    """Return the ranker as it meets the list after so many, in a program of its own where it is full.

    Nearly all batches need nothing forgotten, and to compile both together would take half as long again.
    """
    if not isinstance(ranker, Forgets) or not ranker.may_be_full():
        return ranker
    return ranker.remembered(jax.random.fold_in(key, learned + 1))


def learned(ranker: Ranker, seen: Interaction, keys: Key, n: Array) -> Ranker:
    """Return the ranker that has learned from the first n of these interactions [B, …], keys [B]."""
    if isinstance(ranker, FitsBatches):
        return ranker.learn_batch(seen, keys, n)
    arrays, fixed = eqx.partition(ranker, eqx.is_array)

    def one(i: Array, arrays: Any) -> Any:
        taught = eqx.combine(arrays, fixed).learn(at(seen, i), keys[i])
        return eqx.filter(taught, eqx.is_array)

    return eqx.combine(folded(one, size(seen), n, arrays), fixed)


def of_one(seen: Interaction) -> Interaction:
    """Return a batch of this interaction alone."""
    return jax.tree.map(lambda leaf: leaf[None], seen)


def at(seen: Interaction, i: Array | int) -> Interaction:
    """Return the i-th interaction of a batch."""
    return jax.tree.map(lambda leaf: leaf[i], seen)


def size(seen: Interaction) -> int:
    """Return how many interactions a batch has room for."""
    return seen.clicks.shape[0]


def folded(step: Callable[[Array, State], State], room: int, n: Array, start: State) -> State:
    """Return the state after steps 0 … n - 1; a batch of one needs no loop, which would copy the state."""
    return step(jnp.asarray(0), start) if room == 1 else lax.fori_loop(0, n, step, start)
