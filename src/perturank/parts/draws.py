"""Random numbers for the inner loop, from the same generator as jax.random, in half the time.

jax.random spends a whole block of Threefry, two words, on every number, so that arrays can be
split over devices; here both words are used.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.extend.random import threefry_2x32

from perturank.core import Array, Key


def words(key: Key, shape: tuple[int, ...]) -> Array:
    """Return uniformly random 32-bit words; the first of them are the same however many are drawn."""
    n = math.prod(shape)
    # Threefry takes the first half of its counters with the second: neighbours go into one block.
    counters = jnp.arange(n + n % 2, dtype=jnp.uint32).reshape(-1, 2).T
    drawn = threefry_2x32(jax.random.key_data(key), counters.ravel()).reshape(2, -1)
    return drawn.T.ravel()[:n].reshape(shape)


def uniform(key: Key, shape: tuple[int, ...]) -> Array:
    """Return numbers uniform in (0, 1), 0 and 1 left out: 2²³ values at the middles of equal steps."""
    return ((words(key, shape) >> 9).astype(jnp.float32) + 0.5) * jnp.float32(2**-23)


def normal(key: Key, shape: tuple[int, ...]) -> Array:
    """Return standard normal numbers."""
    return math.sqrt(2) * jax.scipy.special.erfinv(2 * uniform(key, shape) - 1)


def gumbel(key: Key, shape: tuple[int, ...]) -> Array:
    """Return standard Gumbel numbers: the largest of score + gumbel is a draw from softmax(score)."""
    return -jnp.log(-jnp.log(uniform(key, shape)))
