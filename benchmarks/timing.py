"""The clock of the benchmark, and the machine's own speed beside which every number stands."""

from __future__ import annotations

import os
from typing import Any

from perturank import machine
from perturank.sweeps.speed import MATRIX, matrix_gflops


def calibrate(seconds: float) -> dict[str, Any]:
    """Measure the machine's peak; return it with what it depends on."""
    threads = machine.n_threads()
    name = "processor time" if threads == 1 else "wall-clock time"
    return {"gflops": matrix_gflops(seconds), "matrix": MATRIX, "threads": threads, "clock": name}


def processor_seconds() -> float:
    """Return the processor seconds of this process and of the children it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
