"""The growing set of pairs Ω_1..t: each distinct document and each distinct pair once.

A pair seen many times is one weighted term: only its total weight Σw and the weight Σw·y with which
its first document was preferred matter, and the sum of its noises, which is N(0, ν² Σw).

Where a history has a memory, it forgets: before a list is added to so many pairs, the least recently seen
half of them goes, and the documents that no other pair needs (`newer_half`).
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from perturank.core import Array, Interaction, Key, Query
from perturank.hyperparameters import is_zero
from perturank.parts import batches, draws
from perturank.parts.preferences import Pairs
from perturank.parts.recency import Recency
from perturank.parts.soundness import Fault
from perturank.parts.table import Table

# Sums run over blocks of these sizes in order, so that spare capacity never shows in the bits.
DOCUMENT_BLOCK = 256
PAIR_BLOCK = 512


class History(eqx.Module):
    """documents [D, d] and priors [D] by document slot; weight, preferred [P], frozen noise [P, N] by pair slot."""

    documents: Array
    priors: Array
    document_table: Table
    pair_table: Table
    weight: Array
    preferred: Array
    frozen: Array | None
    recency: Recency | None

    @classmethod
    def empty(cls, n_features: int, n_frozen: int | None = None, memory: int | None = None) -> History:
        """Return a history without pairs; n_frozen is N where each pair's noise is drawn once and kept."""
        return cls(
            jnp.zeros((DOCUMENT_BLOCK, n_features)),
            jnp.zeros(DOCUMENT_BLOCK),
            Table.empty(DOCUMENT_BLOCK),
            Table.empty(PAIR_BLOCK),
            jnp.zeros(PAIR_BLOCK),
            jnp.zeros(PAIR_BLOCK),
            None if n_frozen is None else jnp.zeros((PAIR_BLOCK, n_frozen)),
            None if memory is None else Recency.empty(memory, PAIR_BLOCK),
        )

    @property
    def n_documents(self) -> Array:
        """The number of distinct documents."""
        return self.document_table.n

    @property
    def n_pairs(self) -> Array:
        """The number of distinct pairs."""
        return self.pair_table.n

    @property
    def first(self) -> Array:
        """The lower document slot of each pair; [P]."""
        return self.pair_table.keys[:, 0].astype(jnp.int32)

    @property
    def second(self) -> Array:
        """The higher document slot of each pair; [P]."""
        return self.pair_table.keys[:, 1].astype(jnp.int32)

    @property
    def total_weight(self) -> Array:
        """The weight of all pairs together, summed by blocks: spare room does not show in its bits."""

        def block(start: Array, total: Array) -> Array:
            return total + jnp.sum(lax.dynamic_slice_in_dim(self.weight, start, PAIR_BLOCK))

        return over_blocks(self.n_pairs, PAIR_BLOCK, block, jnp.zeros(()))

    def fault(self) -> Fault | None:
        """Return what is wrong with it, if its arrays do not belong together."""
        d, p = self.document_table.capacity, self.pair_table.capacity
        for name, room, block in ((".document_table", d, DOCUMENT_BLOCK), (".pair_table", p, PAIR_BLOCK)):
            if room != _capacity(room, block, block):
                return Fault(f"{name}.keys", f"has {room} rows, which are no whole blocks")
        by_document = {".documents": self.documents, ".priors": self.priors}
        by_pair = {".weight": self.weight, ".preferred": self.preferred, ".frozen": self.frozen}
        by_pair[".recency.last"] = None if self.recency is None else self.recency.last
        for arrays, room in ((by_document, d), (by_pair, p)):
            for name, array in arrays.items():
                if array is not None and array.shape[0] != room:
                    return Fault(name, f"has {array.shape[0]} rows where its table has {room}")
        first, second = np.asarray(self.pair_table.keys)[: int(self.n_pairs)].T
        if ((first >= second) | (second >= int(self.n_documents))).any():
            return Fault(".pair_table.keys", "holds pairs of documents that are not there")
        return Fault(".weight", "is below zero") if (np.asarray(self.weight) < 0).any() else None

    def with_room(self, n_documents: int, n_pairs: int) -> History:
        """Return the same history with room for so many more; a traced one cannot grow: see `has_overflowed`."""
        if isinstance(self.n_documents, jax.core.Tracer):
            return self
        d = _capacity(self._most_documents() + n_documents, self.documents.shape[0], DOCUMENT_BLOCK)
        p = _capacity(self._most_pairs() + n_pairs, self.weight.shape[0], PAIR_BLOCK)
        if (d, p) == (self.documents.shape[0], self.weight.shape[0]):
            return self
        return History(
            _extended(self.documents, d),
            _extended(self.priors, d),
            self.document_table.grown(d) if d > self.document_table.capacity else self.document_table,
            self.pair_table.grown(p) if p > self.pair_table.capacity else self.pair_table,
            _extended(self.weight, p),
            _extended(self.preferred, p),
            None if self.frozen is None else _extended(self.frozen, p),
            None if self.recency is None else self.recency.at(_extended(self.recency.last, p)),
        )

    def _most_pairs(self) -> int:
        """Return for how many pairs there is room before more come: with a memory all at once, to compile once."""
        return int(self.n_pairs) if self.recency is None else self.recency.memory

    def _most_documents(self) -> int:
        """Return the same for documents: there are seldom two to a pair, and more room is made where there are."""
        if self.recency is None:
            return int(self.n_documents)
        is_full = int(self.n_pairs) >= self.recency.memory  # and has half of them when more come
        return max(2 * self.recency.memory, 0 if is_full else int(self.n_documents))

    def faded(self, share: float) -> History:
        """Return the same pairs with this share of their weight; noise goes with its square root."""
        frozen = None if self.frozen is None else self.frozen * share**0.5
        return eqx.tree_at(
            lambda h: (h.weight, h.preferred, h.frozen),
            self,
            (self.weight * share, self.preferred * share, frozen),
            is_leaf=lambda leaf: leaf is None,
        )

    @property
    def has_overflowed(self) -> Array:
        """Whether more documents or pairs came than there is room for; it stays so."""
        return self.document_table.has_overflowed | self.pair_table.has_overflowed

    @property
    def is_full(self) -> Array:
        """Whether half of it is forgotten before the next list.

        What has overflowed forgets nothing, and so cannot forget that it has.
        """
        if self.recency is None:
            return jnp.asarray(False)
        return (self.n_pairs >= self.recency.memory) & ~self.has_overflowed

    def newer_half(self) -> History:
        """Return what is still known of a full history when the next list comes."""
        assert self.recency is not None
        old = _indices(self.recency.stays(self.n_pairs))
        none = self.documents.shape[0]
        first, second = (_kept(end, old, none) for end in (self.first, self.second))
        used = jnp.zeros(none, bool).at[first].set(True, mode="drop").at[second].set(True, mode="drop")
        old_documents, slots = _indices(used), jnp.cumsum(used, dtype=jnp.int32) - 1
        ends = jnp.stack([slots[first], slots[second]], axis=1).astype(jnp.uint32)
        n_pairs = jnp.sum(old < old.shape[0], dtype=jnp.int32)
        return History(
            _kept(self.documents, old_documents),
            _kept(self.priors, old_documents),
            Table.of(_kept(self.document_table.keys, old_documents), jnp.sum(used, dtype=jnp.int32)),
            Table.of(jnp.where(jnp.arange(old.shape[0])[:, None] < n_pairs, ends, 0), n_pairs),
            _kept(self.weight, old),
            _kept(self.preferred, old),
            None if self.frozen is None else _kept(self.frozen, old),
            self.recency.at(_kept(self.recency.last, old)),
        )

    def add(self, shown: Query, pairs: Pairs, key: Key, noise_std: Array | float = 0.0) -> tuple[History, Array]:
        """Return the history with one list's pairs, and the pairs' slots [p] (capacity: none)."""
        real = pairs.weight > 0
        places = jnp.arange(shown.mask.shape[0])[:, None]
        used = jnp.any(((places == pairs.winner) | (places == pairs.loser)) & real, axis=1)
        document_table, slots = self.document_table.find_or_insert(shown.ids, used)
        documents = self.documents.at[slots].set(shown.features, mode="drop")
        priors = self.priors.at[slots].set(shown.prior, mode="drop")

        winner, loser = slots[pairs.winner], slots[pairs.loser]
        real &= winner != loser  # two rows of equal content say nothing of each other
        ends = jnp.stack([jnp.minimum(winner, loser), jnp.maximum(winner, loser)], axis=1)
        pair_table, pair_slots = self.pair_table.find_or_insert(ends.astype(jnp.uint32), real)
        weight = jnp.where(real, pairs.weight, 0.0)
        frozen = self.frozen
        if frozen is not None:
            lots = jax.random.normal(key, (weight.shape[0], frozen.shape[1]))
            frozen = frozen.at[pair_slots].add(noise_std * jnp.sqrt(weight)[:, None] * lots, mode="drop")
        history = History(
            documents,
            priors,
            document_table,
            pair_table,
            self.weight.at[pair_slots].add(weight, mode="drop"),
            self.preferred.at[pair_slots].add(weight * (winner < loser), mode="drop"),
            frozen,
            None if self.recency is None else self.recency.told(pair_slots),
        )
        return history, pair_slots

    def add_batch(
        self,
        seen: Interaction,
        pairs: Callable[[Interaction, Key], Pairs],
        keys: Key,
        n: Array,
        noise_std: Array | float = 0.0,
    ) -> tuple[History, Array]:
        """Return the history with the pairs of the first n interactions [B, …], and their slots [B, p]."""
        lots = jax.vmap(lambda key: jax.random.split(key, 3))(keys)

        def add(i: Array, state: tuple[History, Array]) -> tuple[History, Array]:
            history, slots = state
            each = batches.at(seen, i)
            history, found = history.add(each.shown, pairs(each, lots[i, 0]), lots[i, 1], noise_std)
            return history, slots.at[i].set(found)

        room = batches.size(seen)
        n_pairs = jax.eval_shape(pairs, jax.tree.map(lambda leaf: leaf[0], seen), keys[0]).weight.shape[0]
        none = jnp.full((room, n_pairs), self.weight.shape[0], jnp.int32)
        return batches.folded(add, room, n, (self, none))

    def targets(self, noise_std: Array | float, n_rankers: int, key: Key) -> Array:
        """Return Σw·(y + γ) of every pair for every ranker; [P, N]. Noise is drawn anew unless frozen."""
        if self.frozen is not None:
            return self.preferred[:, None] + self.frozen
        if is_zero(noise_std):
            return jnp.broadcast_to(self.preferred[:, None], (self.preferred.shape[0], n_rankers))

        def block(start: Array, targets: Array) -> Array:
            weight = lax.dynamic_slice_in_dim(self.weight, start, PAIR_BLOCK)
            preferred = lax.dynamic_slice_in_dim(self.preferred, start, PAIR_BLOCK)
            lots = draws.normal(jax.random.fold_in(key, start), (PAIR_BLOCK, n_rankers))
            drawn = preferred[:, None] + noise_std * jnp.sqrt(weight)[:, None] * lots
            return lax.dynamic_update_slice_in_dim(targets, drawn, start, 0)

        return over_blocks(self.n_pairs, PAIR_BLOCK, block, jnp.zeros((self.weight.shape[0], n_rankers)))


def over_blocks(n: Array, size: int, step: Callable[[Array, Array], Array], start: Array) -> Array:
    """Fold `step(offset, value)` over the blocks that hold the first n rows."""
    return lax.fori_loop(0, (n + size - 1) // size, lambda i, value: step(i * size, value), start)


def _capacity(needed: int, capacity: int, block: int) -> int:
    """Return a capacity of at least `needed`: doubling, so that growth recompiles a logarithmic number of times."""
    while capacity < needed:
        capacity *= 2
    return max(capacity, block)


def _indices(chosen: Array) -> Array:
    """Return where `chosen` holds, in order; behind them a number that is no index."""
    (found,) = jnp.nonzero(chosen, size=chosen.shape[0], fill_value=chosen.shape[0])
    return found


def _kept(array: Array, indices: Array, otherwise: int = 0) -> Array:
    return array.at[indices].get(mode="fill", fill_value=otherwise)


def _extended(array: Array, n: int) -> Array:
    # By NumPy: JAX would compile a program for every shape.
    longer = np.zeros((n, *array.shape[1:]), array.dtype)
    longer[: array.shape[0]] = np.asarray(array)
    return jax.device_put(longer)
