from __future__ import annotations

from functools import cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from perturank.parts.table import EMPTY, Table

CAPACITY, AT_ONCE = 32, 8
insert = eqx.filter_jit(Table.find_or_insert)


def words(numbers: list[int]) -> jnp.ndarray:
    """Return numbers as keys of two words, padded to the length at which insertion is compiled."""
    full = np.array(numbers + [0] * (AT_ONCE - len(numbers)), np.uint64)
    return jnp.asarray(np.stack([full & 0xFFFFFFFF, full >> np.uint64(32)], axis=1).astype(np.uint32))


def wanted(flags: list[bool]) -> jnp.ndarray:
    return jnp.asarray(flags + [False] * (AT_ONCE - len(flags)))


def put(table: Table, numbers: list[int], flags: list[bool] | None = None) -> tuple[Table, list[int]]:
    table, slots = insert(table, words(numbers), wanted([True] * len(numbers) if flags is None else flags))
    return table, np.asarray(slots)[: len(numbers)].tolist()


@cache
def colliding(n: int = 6) -> list[int]:
    """Return numbers that all want the same cell of an empty table."""
    empty, home, found = Table.empty(CAPACITY), -1, []
    for number in range(100_000):
        table, _ = put(empty, [number])
        cell = int(np.flatnonzero(np.asarray(table.cells) != EMPTY)[0])
        if home in (-1, cell):
            home = cell
            found.append(number)
        if len(found) == n:
            return found
    raise AssertionError("no collisions")


NUMBERS = st.one_of(st.integers(0, 5), st.deferred(lambda: st.sampled_from(colliding())), st.integers(0, 2**64 - 1))
BATCH = st.lists(st.tuples(NUMBERS, st.booleans()), min_size=1, max_size=AT_ONCE)


@settings(max_examples=50, deadline=None)
@given(st.lists(BATCH, max_size=12), st.integers(0, 12))
def test_a_table_is_a_dictionary_that_numbers_keys_as_they_come(
    batches: list[list[tuple[int, bool]]], cut: int
) -> None:
    table, known = Table.empty(CAPACITY), dict[int, int]()
    for i, batch in enumerate(batches):
        new = {number for number, flag in batch if flag} - set(known)
        if len(known) + len(new) > CAPACITY:
            break
        if i == cut:
            table = table.grown(2 * CAPACITY).grown(4 * CAPACITY)
        table, slots = put(table, [number for number, _ in batch], [flag for _, flag in batch])
        for (number, flag), slot in zip(batch, slots, strict=True):
            if not flag:
                assert slot == table.capacity
            elif number in known:
                assert slot == known[number]
            else:
                known[number] = slot
                assert slot >= len(known) - len(new)
        assert sorted(known.values()) == list(range(len(known)))
        assert int(table.n) == len(known)
        stored = [int(low) | int(high) << 32 for low, high in np.asarray(table.keys)[: len(known)]]
        assert stored == sorted(known, key=known.__getitem__)


def test_keys_that_want_the_same_cell_get_slots_of_their_own_at_once_and_one_by_one() -> None:
    at_once, slots = put(Table.empty(CAPACITY), colliding())
    assert slots == list(range(6))
    one_by_one = Table.empty(CAPACITY)
    for number in colliding():
        one_by_one, _ = put(one_by_one, [number])
    for table in (at_once, one_by_one):
        assert put(table, colliding()[::-1])[1] == slots[::-1]


def test_a_key_given_twice_at_once_has_one_slot() -> None:
    table, slots = put(Table.empty(CAPACITY), [7, 9, 7, 7])
    assert slots[0] == slots[2] == slots[3] != slots[1]
    assert int(table.n) == 2


def test_a_full_table_still_finds_everything() -> None:
    table = Table.empty(CAPACITY)
    numbers = [i * 2**32 + 3 for i in range(CAPACITY)]
    for start in range(0, CAPACITY, AT_ONCE):
        table, slots = put(table, numbers[start : start + AT_ONCE])
        assert slots == list(range(start, start + AT_ONCE))
    again, slots = put(table, numbers[::-4])
    assert slots == list(range(CAPACITY))[::-4]
    assert int(again.n) == CAPACITY
