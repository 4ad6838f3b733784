"""Which pairs of a history were least recently seen: they go first where not all can be remembered."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from perturank.core import Array
from perturank.parts.soundness import Fault

MOST_LISTS = 2**30  # that one brings from elsewhere: as many again can be counted


class Recency(eqx.Module):
    """The number of the list that last told each pair, [P], how many lists there were, and how many pairs may be."""

    last: Array
    n_lists: Array
    memory: int = eqx.field(static=True)

    @classmethod
    def empty(cls, memory: int, room: int) -> Recency:
        """Return that of a history without pairs, with room for so many."""
        return cls(jnp.zeros(room, jnp.int32), jnp.zeros((), jnp.int32), memory)

    def fault(self) -> Fault | None:
        """Return what is wrong with it, if lists are counted otherwise than from 1 on."""
        n_lists, last = int(self.n_lists), np.asarray(self.last)
        if not 0 <= n_lists < MOST_LISTS:
            return Fault(".n_lists", f"counts {n_lists} lists")
        return Fault(".last", f"names lists beyond {n_lists}") if ((last < 0) | (last > n_lists)).any() else None

    def at(self, last: Array) -> Recency:
        """Return the same for pairs at other slots."""
        return Recency(last, self.n_lists, self.memory)

    def told(self, slots: Array) -> Recency:
        """Return that after a list with these pairs."""
        now = self.n_lists + 1
        return Recency(self.last.at[slots].set(now, mode="drop"), now, self.memory)

    def stays(self, n_pairs: Array) -> Array:
        """Return which pairs are the newer half of the memory; [P]. Of those told by one list, the later ones."""
        room = self.last.shape[0]
        real = jnp.arange(room) < n_pairs
        oldest_first = jnp.argsort(jnp.where(real, self.last, -1), stable=True)
        newer = oldest_first[max(room - self.memory // 2, 0) :]
        return jnp.zeros(room, bool).at[newer].set(True) & real
