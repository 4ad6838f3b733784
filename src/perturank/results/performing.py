"""One job done: the simulation behind a result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perturank import machine
from perturank.datasets import Fold
from perturank.errors import BadInput
from perturank.results.job import Job
from perturank.results.manifest import made_by
from perturank.results.outcome import Outcome
from perturank.simulation import simulate

SAVE_EVERY = 5.0  # seconds: the most that an interruption loses of a run


def performed(
    job: Job, fold: Fold, checkpoint: Path | None = None, on_progress: Callable[[int], None] | None = None
) -> Outcome:
    """Return what the job comes to; with a checkpoint file it goes on where an earlier call stopped."""
    if job.threads != machine.n_threads():
        raise BadInput(f"the run asks for {job.threads} threads", f"this process has {machine.n_threads()}")
    run = simulate(job.plan_on(fold), checkpoint=checkpoint, save_every=SAVE_EVERY, on_progress=on_progress)
    return Outcome.of(job, run, made_by())
