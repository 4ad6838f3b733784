"""Several runs at the same time, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(function: Callable[[T], R], arguments: Iterable[T], jobs: int) -> Generator[R, None, None]:
    """Yield the function's value for each argument, in their order; the workers end when this does."""
    fresh = multiprocessing.get_context("spawn")  # a fork would inherit JAX's locks but not its threads
    with ProcessPoolExecutor(jobs, fresh, signal.signal, (signal.SIGINT, signal.SIG_DFL)) as pool:
        try:
            yield from pool.map(function, arguments)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
