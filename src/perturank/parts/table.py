"""A hash table inside a compiled program: 64-bit keys to dense slots, in order of first sight."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from perturank.core import Array
from perturank.parts.soundness import Fault

EMPTY = -1


class Table(eqx.Module):
    """keys [C, 2] by slot, cells [4C] holding slots (open addressing, linear probing), and a count."""

    keys: Array
    cells: Array
    n: Array

    @classmethod
    def empty(cls, capacity: int) -> Table:
        """Return a table without keys."""
        return cls(
            jnp.zeros((capacity, 2), jnp.uint32),
            jnp.full(_n_cells(capacity), EMPTY, jnp.int32),
            jnp.zeros((), jnp.int32),
        )

    @classmethod
    def of(cls, keys: Array, n: Array) -> Table:
        """Return a table of the first n of these keys [C, 2], all different; slots are their places."""
        return cls.empty(keys.shape[0]).find_or_insert(keys, jnp.arange(keys.shape[0]) < n)[0]

    @property
    def capacity(self) -> int:
        """How many keys it can hold."""
        return self.keys.shape[0]

    @property
    def has_overflowed(self) -> Array:
        """Whether more keys were inserted than it can hold: those beyond are counted and lost."""
        return self.n > self.capacity

    def grown(self, capacity: int) -> Table:
        """Return the same table with room for more keys; slots keep their numbers."""
        n = int(self.n)
        keys = np.zeros((capacity, 2), np.uint32)
        keys[:n] = np.asarray(self.keys)[:n]
        cells = np.full(_n_cells(capacity), EMPTY, np.int32)
        for slot, cell in enumerate(home_cells(keys[:n], cells.size)):
            while cells[cell] != EMPTY:
                cell = (cell + 1) % cells.size
            cells[cell] = slot
        return Table(jax.device_put(keys), jax.device_put(cells), self.n)

    def fault(self) -> Fault | None:
        """Return what is wrong with it, if no insertion makes such a table."""
        n, keys, cells = int(self.n), np.asarray(self.keys), np.asarray(self.cells)
        if cells.size != _n_cells(self.capacity):
            return Fault(".cells", f"has {cells.size} cells for {self.capacity} keys")
        if not 0 <= n <= self.capacity:
            return Fault(".n", f"counts {n} keys where there is room for {self.capacity}")
        (used,) = np.nonzero(cells != EMPTY)
        if not np.array_equal(np.sort(cells[used]), np.arange(n)):
            return Fault(".cells", f"does not hold each of {n} keys once")
        if np.unique(keys[:n, 0] | keys[:n, 1].astype(np.uint64) << np.uint64(32)).size < n:
            return Fault(".keys", "holds a key twice")
        # A key is looked for from its home on, up to the first empty cell.
        home = home_cells(keys[:n], cells.size)[cells[used]]
        n_empty = np.append(0, np.cumsum(cells == EMPTY))
        passed = n_empty[used] - n_empty[home] + np.where(used < home, n_empty[-1], 0)
        return Fault(".cells", "holds keys where they are never found") if passed.any() else None

    def find_or_insert(self, keys: Array, wanted: Array) -> tuple[Table, Array]:
        """Return the table with these keys [q, 2] in it, and their slots [q]; unwanted ones get slot C.

        All keys probe at once. A key that finds an empty cell claims it with its own number; where
        two claim one cell the reread shows who won, and the loser goes on (or shares the slot, if
        it is the same key). After as many turns as there are cells every key has seen them all: a table
        without an empty cell, which is none of ours, gives slot C to a key that is not in it.
        """
        rows = jnp.arange(keys.shape[0], dtype=jnp.int32)
        n_cells = self.cells.shape[0]

        def claimed_by(row: Array) -> Array:
            return -2 - row

        def probe(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            cells, cell, done, turn = state
            claims = ~done & (cells[cell] == EMPTY)
            cells = cells.at[jnp.where(claims, cell, n_cells)].set(claimed_by(rows), mode="drop")
            found = cells[cell]
            known = jnp.where((found >= 0)[:, None], self.keys[found], keys[claimed_by(found)])
            done = done | jnp.all(known == keys, axis=1)
            return cells, jnp.where(done, cell, (cell + 1) % n_cells), done, turn + 1

        def unfinished(state: tuple[Array, Array, Array, Array]) -> Array:
            return ~jnp.all(state[2]) & (state[3] < n_cells)

        start = self.cells, home_cells(keys, n_cells), ~wanted, jnp.zeros((), jnp.int32)
        cells, cell, done, _ = lax.while_loop(unfinished, probe, start)
        wanted &= done
        found = cells[cell]
        first = wanted & (found == claimed_by(rows))
        new_slot = self.n + jnp.cumsum(first, dtype=jnp.int32) - 1
        slots = jnp.where(found >= 0, found, new_slot[claimed_by(found)])
        slots = jnp.where(wanted, slots, self.capacity)
        cells = cells.at[jnp.where(first, cell, n_cells)].set(slots, mode="drop")
        stored = self.keys.at[jnp.where(first, slots, self.capacity)].set(keys, mode="drop")
        return Table(stored, cells, self.n + jnp.sum(first, dtype=jnp.int32)), slots


def _n_cells(capacity: int) -> int:
    return 4 << (capacity - 1).bit_length()


def home_cells(keys: Any, n_cells: int) -> Any:
    """Return the cell that each key [q, 2] is hashed to, for arrays of JAX and of NumPy alike; [q]."""
    mixed = keys[:, 0] * np.uint32(0x9E3779B1) ^ (keys[:, 1] * np.uint32(0x85EBCA77) + np.uint32(0xC2B2AE3D))
    mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(0x2C1B3C6D)
    return ((mixed ^ (mixed >> np.uint32(13))) % np.uint32(n_cells)).astype(np.int32)
