from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from perturank.core import Array
from perturank.parts import triangle

RNG = np.random.default_rng(5)
T, B, M = 4, 3, 2
X = RNG.normal(size=(B * T, M))


def tiled(matrix: np.ndarray) -> Array:
    """Return the lower triangle of a [B T, B T] in tiles, and room for another block row."""
    blocks = [matrix[b * T : (b + 1) * T, c * T : (c + 1) * T] for b in range(B) for c in range(b + 1)]
    return jnp.asarray(np.concatenate([blocks, np.zeros((B + 1, T, T))]), jnp.float32)


def columns(x: np.ndarray) -> Array:
    return jnp.asarray(x.reshape(-1, T, x.shape[1]), jnp.float32)


def flat(blocks: Array) -> np.ndarray:
    return np.asarray(blocks).reshape(-1, blocks.shape[2])


def symmetric() -> np.ndarray:
    half = RNG.normal(size=(B * T, B * T))
    return np.asarray(half + half.T)


@pytest.mark.parametrize("n", range(5))
def test_its_size_is_known_from_its_tiles(n: int) -> None:
    assert triangle.n_tiles(n) == sum(range(n + 1))
    assert triangle.n_blocks(jnp.zeros((triangle.n_tiles(n), T, T))) == n


def test_a_system_is_solved_block_by_block() -> None:
    lower = np.tril(RNG.normal(size=(B * T, B * T))) + 4 * np.eye(B * T)
    held = lower.copy()
    for b in range(B):
        here = slice(b * T, (b + 1) * T)
        held[here, here] = np.linalg.inv(lower[here, here])
    right = columns(X)
    none = jnp.zeros((B + 1, T, M))
    found = triangle.solved(tiled(held), jnp.asarray(B), lambda b: right[b], none)
    np.testing.assert_allclose(flat(found)[: B * T], np.linalg.solve(lower, X), rtol=1e-4, atol=1e-5)
    assert not flat(found)[B * T :].any()
    first = triangle.solved(tiled(held), jnp.asarray(1), lambda b: right[b], none)
    np.testing.assert_allclose(flat(first)[:T], np.linalg.solve(lower[:T, :T], X[:T]), rtol=1e-4, atol=1e-5)
    assert not flat(first)[T:].any()


def test_products_are_those_of_the_whole_symmetric_matrix() -> None:
    s, n = symmetric(), jnp.asarray(B)
    np.testing.assert_allclose(flat(triangle.product(tiled(s), columns(X), n)), s @ X, rtol=1e-4, atol=1e-4)
    half = flat(triangle.half_product(tiled(s), columns(X))).astype(np.float64)
    np.testing.assert_allclose(X.T @ half + half.T @ X, X.T @ s @ X, rtol=1e-4, atol=1e-4)
    assert not flat(triangle.product(tiled(s), columns(X), jnp.asarray(0))).any()


def test_squares_are_taken_off_the_lower_triangle() -> None:
    s = symmetric()
    less = triangle.less_squares(tiled(s), columns(X), jnp.asarray(B))
    np.testing.assert_allclose(less, tiled(s - X @ X.T), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(triangle.less_squares(tiled(s), columns(X), jnp.asarray(0)), tiled(s))


def test_a_multiple_of_the_identity_takes_the_place_of_what_was_there() -> None:
    s = symmetric()
    np.testing.assert_array_equal(triangle.identity(tiled(s), 2.0, jnp.asarray(B)), tiled(2 * np.eye(B * T)))
    np.testing.assert_array_equal(triangle.identity(tiled(s), 2.0, jnp.asarray(0)), tiled(s))


def test_rows_go_to_the_first_tiles_of_a_block_row() -> None:
    s = symmetric()
    rows = RNG.normal(size=(2, B * T))
    given = jnp.asarray(rows.reshape(2, B, T).transpose(1, 0, 2), jnp.float32)
    found = triangle.with_rows(tiled(s), jnp.asarray(2), jnp.asarray(1), given, jnp.asarray(2))
    s[2 * T + 1 : 2 * T + 3, : 2 * T] = rows[:, : 2 * T]
    np.testing.assert_array_equal(found, tiled(s))
