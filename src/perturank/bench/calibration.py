"""How fast this machine is just now: a matrix product in float32, by JAX, with the threads of a run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from perturank import machine
from perturank.bench.timing import clock_name, shortest

SIZE = 1024


def calibrated(seconds: float) -> dict[str, Any]:
    """Return the peak: the best of as many products as fit into so many seconds."""
    a, b = jax.random.normal(jax.random.key(0), (2, SIZE, SIZE))
    product = jax.jit(jnp.matmul)
    best = shortest(lambda: product(a, b), seconds, most=1000)
    return {
        "gflops": 2 * SIZE**3 / best / 1e9,
        "matrix": SIZE,
        "threads": machine.n_threads(),
        "clock": clock_name(),
    }
