"""Seconds that mean the same on a busy machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import jax

from perturank import machine


def clock() -> float:
    """Return seconds of work done: processor time where one thread works, which others cannot lengthen."""
    return time.process_time() if machine.n_threads() == 1 else time.perf_counter()


def work_done() -> float:
    """Return the processor seconds of this process and of the children it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def clock_name() -> str:
    """Return which clock is read."""
    return "processor time" if machine.n_threads() == 1 else "wall-clock time"


def ready(value: Any) -> None:
    """Wait until every array inside has been computed."""
    jax.block_until_ready(value)  # type: ignore[no-untyped-call]


def shortest(work: Callable[[], Any], seconds: float, most: int = 200) -> float:
    """Return the shortest of as many calls as fit into so many seconds, at least two; the first is not counted."""
    ready(work())
    times: list[float] = []
    while len(times) < 2 or (sum(times) < seconds and len(times) < most):
        began = clock()
        ready(work())
        times.append(clock() - began)
    return min(times)
