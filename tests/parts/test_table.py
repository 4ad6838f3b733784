from __future__ import annotations

from functools import cache
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
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
        assert table.fault() is None
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


def damaged(table: Table, **arrays: object) -> Table:
    """Return the table with some arrays of the same kind in place of its own."""
    mine = {"keys": table.keys, "cells": table.cells, "n": table.n}
    return Table(**{name: jnp.asarray(arrays.get(name, array), array.dtype) for name, array in mine.items()})


@pytest.mark.parametrize("content", [0, 3, np.iinfo(np.int32).max, np.iinfo(np.int32).min])
def test_without_an_empty_cell_a_key_is_looked_for_once_round_and_gets_no_slot(content: int) -> None:
    table = damaged(put(Table.empty(CAPACITY), [7, 9])[0], cells=np.full(4 * CAPACITY, content))
    same, slots = put(table, [11, 12])
    assert (int(same.n), slots) == (2, [CAPACITY] * 2)
    fault = table.fault()
    assert fault is not None
    assert fault.array == ".cells"


def test_a_table_says_what_no_insertion_makes() -> None:
    numbers = colliding()
    table, _ = put(Table.empty(CAPACITY), numbers)
    cells, keys = np.asarray(table.cells), np.asarray(table.keys)
    home = int(np.flatnonzero(cells == 0)[0])
    gap, moved, twice, out = cells.copy(), cells.copy(), cells.copy(), cells.copy()
    gap[[home, home - 2]] = EMPTY, 0
    moved[[home, (home + 10) % cells.size]] = EMPTY, 0
    twice[(home + 10) % cells.size] = 0
    out[home] = 6
    wrong: dict[str, list[Any]] = {
        "cells": [gap, moved, twice, out, cells[:-1], np.full_like(cells, EMPTY)],
        "keys": [np.zeros_like(keys), np.repeat(keys[:1], CAPACITY, 0)],
        "n": [-1, 5, 7, CAPACITY + 1, np.iinfo(np.int32).max],
    }
    for name, contents in wrong.items():
        for array in contents:
            assert damaged(table, **{name: array}).fault() is not None, (name, array)
    assert damaged(table).fault() is None
    assert table.grown(4 * CAPACITY).fault() is None
    assert Table.of(table.keys, table.n).fault() is None
