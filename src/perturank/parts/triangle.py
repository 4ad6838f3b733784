"""The lower triangle of a growing square matrix in square tiles, row by row: growth appends, and loops follow its size.

Tile (b, c), c ≤ b, is the b (b + 1) / 2 + c-th; vectors are columns in as many blocks of rows, [B, T, M].
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from perturank.core import Array

TILE = 256


def n_tiles(n_blocks: int) -> int:
    """Return how many tiles a triangle of so many block rows has."""
    return n_blocks * (n_blocks + 1) // 2


def n_blocks(tiles: Array) -> int:
    """Return how many block rows there is room for."""
    b = 0
    while n_tiles(b) < tiles.shape[0]:
        b += 1
    return b


def tile(tiles: Array, b: Array, c: Array) -> Array:
    """Return tile (b, c); [T, T]."""
    return lax.dynamic_index_in_dim(tiles, _place(b, c), keepdims=False)


def with_rows(tiles: Array, b: Array, at: Array, rows: Array, n: Array) -> Array:
    """Return the tiles with these rows, from row `at` of block row b on, in its first n tiles; [B, q, T]."""

    def replace(c: Array, tiles: Array) -> Array:
        return lax.dynamic_update_slice(tiles, rows[c][None], (_place(b, c), at, jnp.zeros_like(at)))

    return lax.fori_loop(0, n, replace, tiles)


def left_sum(tiles: Array, b: Array, columns: Array) -> Array:
    """Return what the tiles left of the diagonal make of these columns in block row b; [B, T, M] -> [T, M]."""

    def add(c: Array, total: Array) -> Array:
        return total + tile(tiles, b, c) @ columns[c]

    return lax.fori_loop(0, b, add, jnp.zeros(columns.shape[1:]))


def solved(tiles: Array, n: Array, right: Callable[[Array], Array], like: Array) -> Array:
    """Return L⁻¹ R where diagonal tiles hold inverses, over n block rows; `right(b)` [T, M] -> `like` [B, T, M]."""

    def row(b: Array, found: Array) -> Array:
        rest = right(b) - left_sum(tiles, b, found)
        return found.at[b].set(tile(tiles, b, b) @ rest)

    return lax.fori_loop(0, n, row, like)


def half_product(tiles: Array, columns: Array) -> Array:
    """Return H X, where H + Hᵀ is the symmetric matrix whose lower triangle this is; [B, T, M] -> [B, T, M]."""

    def row(b: Array, found: Array) -> Array:
        return found.at[b].set(left_sum(tiles, b, columns) + 0.5 * tile(tiles, b, b) @ columns[b])

    return lax.fori_loop(0, columns.shape[0], row, jnp.zeros_like(columns))


def product(tiles: Array, columns: Array, n: Array) -> Array:
    """Return S X of the symmetric S of n block rows whose lower triangle this is; [B, T, M] -> [B, T, M]."""

    def row(b: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        down, across = found

        # Xᵀ S, not Sᵀ X: a transposed tile would be written out.
        def left(c: Array, across: Array) -> Array:
            return across.at[c].add(columns[b].T @ tile(tiles, b, c))

        down = down.at[b].set(left_sum(tiles, b, columns) + tile(tiles, b, b) @ columns[b])
        return down, lax.fori_loop(0, b, left, across)

    down, across = lax.fori_loop(0, n, row, (jnp.zeros_like(columns), jnp.zeros_like(columns.mT)))
    return down + across.mT


def less_squares(tiles: Array, columns: Array, n: Array) -> Array:
    """Return S - X Xᵀ of the symmetric S of n block rows whose lower triangle this is; [B, T, M]."""

    def row(b: Array, tiles: Array) -> Array:
        def left(c: Array, tiles: Array) -> Array:
            here = tile(tiles, b, c) - columns[b] @ columns[c].T
            return lax.dynamic_update_index_in_dim(tiles, here, _place(b, c), 0)

        return lax.fori_loop(0, b + 1, left, tiles)

    return lax.fori_loop(0, n, row, tiles)


def identity(tiles: Array, factor: Array | float, n: Array) -> Array:
    """Return the tiles with those of `factor` I in the first n block rows."""

    def row(b: Array, tiles: Array) -> Array:
        def left(c: Array, tiles: Array) -> Array:
            here = jnp.where(b == c, factor, 0.0) * jnp.eye(tiles.shape[1])
            return lax.dynamic_update_index_in_dim(tiles, here, _place(b, c), 0)

        return lax.fori_loop(0, b + 1, left, tiles)

    return lax.fori_loop(0, n, row, tiles)


def _place(b: Array, c: Array) -> Array:
    return b * (b + 1) // 2 + c
