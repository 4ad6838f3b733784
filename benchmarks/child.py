"""A ranker's rounds in a process of their own: its memory is its own, and it can be given up."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from benchmarks.loop import TOP, Loop, fresh, world_of
from perturank import datasets
from perturank.core import with_room
from perturank.datasets import Dataset

N_GRADES = 5
BUSY = 5  # times the processor time that a busy machine may take


@dataclass(frozen=True)
class Workload:
    """What the process runs: made-up data with each of these numbers of features; 0 is the embedded data."""

    ranker: str
    dimensions: tuple[int, ...]
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Measurement:
    """What was measured of each dimension, in order; where not of all, `failure` says why."""

    values: tuple[dict[str, float], ...]
    failure: str = ""


def run_child(workload: Workload, patience: float) -> Measurement:
    """Run the workload in a process of its own, for at most so many seconds of processor time."""
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    program = "from benchmarks.child import main; main()"
    started = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(asdict(workload)), str(patience)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    with started:
        try:
            printed, errors = started.communicate(timeout=BUSY * patience)
        except BaseException as error:  # an interruption must not leave it running either
            started.kill()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            printed, _ = started.communicate()
            errors = f"not done after {BUSY * patience:g} s"
    values = tuple(json.loads(line) for line in printed.splitlines() if line.endswith("}"))
    if started.returncode == 0:
        return Measurement(values)
    return Measurement(values, _failure(started.returncode, errors, patience))


def _failure(code: int, errors: str, patience: float) -> str:
    last = (errors.strip().splitlines() or [""])[-1]
    if code == -signal.SIGXCPU:
        return f"not done after {patience:g} s of processor time"
    return last or ("killed: out of memory?" if code == -signal.SIGKILL else f"ended with code {code}")


def run_children(workloads: Sequence[Workload], patience: float) -> Iterator[Measurement]:
    """Run every workload, as many at a time as there are processors: for measurements of anything but time."""
    with ThreadPoolExecutor(os.cpu_count()) as waiting:
        yield from waiting.map(partial(run_child, patience=patience), workloads)


def made_up(n_features: int, n_queries: int = 8, n_documents: int = 20) -> Dataset:
    """Return few queries with many features; half of all documents are relevant."""
    rng = np.random.default_rng(0)
    x = rng.random((n_queries * n_documents, n_features), dtype=np.float32)
    grades = rng.choice([0, N_GRADES - 1], size=len(x))
    return Dataset.from_arrays(x, grades, group=[n_documents] * n_queries, normalise=False)


def run_here(workload: Workload, n_features: int) -> dict[str, float]:
    """Run in this process; return seconds, rounds and bytes."""
    data = made_up(n_features) if n_features else datasets.load("synthetic").train
    loop = Loop(world_of(data, N_GRADES), with_room(fresh(workload.ranker, data.n_features), workload.rounds, TOP))
    before = peak_bytes()
    n, seconds = loop.run_for(workload.seconds, workload.rounds)
    arrays = jax.tree.leaves(eqx.filter(loop.ranker, eqx.is_array))
    return {
        "rounds": n,
        "seconds": seconds,
        "state_bytes": sum(array.nbytes for array in arrays),
        "compiled_bytes": before,
        "peak_bytes": peak_bytes(),
    }


def peak_bytes() -> int:
    """Return the largest resident set of this process so far.

    Linux's getrusage begins with the parent's; its status file does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Run the workload given as JSON, and print one line for each of its dimensions as soon as it is known."""
    fields, patience = json.loads(sys.argv[1]), math.ceil(float(sys.argv[2]))
    resource.setrlimit(resource.RLIMIT_CPU, (patience, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    workload = Workload(**fields)
    for n_features in workload.dimensions:
        sys.stdout.write(json.dumps(run_here(workload, n_features)) + "\n")
        sys.stdout.flush()
