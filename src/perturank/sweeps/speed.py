"""How fast this machine is just now: the matrix product that every estimate and every benchmark is measured against."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from perturank import machine

MATRIX = 1024


def clock() -> float:
    """Return seconds of work done: processor time where one thread works, which other programs cannot lengthen."""
    return time.process_time() if machine.n_threads() == 1 else time.perf_counter()


def shortest(work: Callable[[], Any], seconds: float, most: int = 200) -> float:
    """Return the shortest of as many calls as fit into so many seconds, at least two; the first is not counted."""
    jax.block_until_ready(work())  # type: ignore[no-untyped-call]
    times: list[float] = []
    while len(times) < 2 or (sum(times) < seconds and len(times) < most):
        began = clock()
        jax.block_until_ready(work())  # type: ignore[no-untyped-call]
        times.append(clock() - began)
    return min(times)


def matrix_gflops(seconds: float) -> float:
    """Return the peak of a float32 matrix product, with the threads of a run: the best of so many seconds."""
    a, b = jax.random.normal(jax.random.key(0), (2, MATRIX, MATRIX))
    product = jax.jit(jnp.matmul)
    return 2 * MATRIX**3 / shortest(lambda: product(a, b), seconds, most=1000) / 1e9
