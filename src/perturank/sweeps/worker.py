"""A process that makes one run after another, as told through a pipe, and keeps each in the store."""

from __future__ import annotations

import functools
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import jax

from perturank import catalogue, datasets, machine
from perturank.core import traces_settings
from perturank.errors import BadInput
from perturank.hyperparameters import Settings
from perturank.results.job import Job
from perturank.results.manifest import made_by
from perturank.results.outcome import RunOutcome
from perturank.results.store import Store
from perturank.simulation import simulate

SAVE_EVERY = 5.0  # seconds: the most that an interruption loses of a run
FOLDS_AT_HAND = 2
PROGRAMS_AT_HAND = 12  # each takes some 50 MB


class Rounds(NamedTuple):
    """So many rounds of the run under way are done."""

    n: int


class Done(NamedTuple):
    """The run is in the store; or not, and why; `is_ours` of a fault that is no fault of the user's."""

    key: str
    failure: str = ""
    is_ours: bool = False


@functools.cache
def program(job: Job) -> tuple[str, Settings, str, int]:
    """Return what runs must share to share their compiled programs: all settings that are not traced."""
    entry = catalogue.load_published(job.ranker)
    settings = entry.settings.changed(**job.chosen)
    return job.ranker, settings.traced(lambda _: None) if traces_settings(entry.kind) else settings, job.data, job.top


def run_worker(pipe: Connection, folder: Path, parent: int) -> None:
    """Run the jobs that come through the pipe until it is closed or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    store = Store.open(folder)
    compiled: set[object] = set()

    def advance(n: int) -> None:
        if os.getppid() != parent:  # killed: nobody will collect this run, and a new sweep may be making it
            os._exit(1)
        pipe.send(Rounds(n))

    while True:
        try:
            job: Job = pipe.recv()
        except EOFError:
            return
        compiled.add(program(job))
        if len(compiled) > PROGRAMS_AT_HAND:
            compiled = {program(job)}
            jax.clear_caches()  # type: ignore[no-untyped-call] # programs of earlier rankers would pile up
        try:
            store.keep(run_job(job, fold_of(job.data, job.fold), store.checkpoint(job.key), advance))
            pipe.send(Done(job.key))
        except BadInput as error:
            pipe.send(Done(job.key, str(error)))
        except Exception:  # told to the parent, which stops the sweep
            pipe.send(Done(job.key, traceback.format_exc(), True))


def run_job(
    job: Job, fold: datasets.Fold, checkpoint: Path | None = None, on_progress: Callable[[int], None] | None = None
) -> RunOutcome:
    """Run a job and return what it comes to; with a checkpoint file it goes on where an earlier call stopped."""
    if job.threads != machine.n_threads():
        raise BadInput(f"the run asks for {job.threads} threads", f"this process has {machine.n_threads()}")
    run = simulate(job.plan_on(fold), checkpoint=checkpoint, save_every=SAVE_EVERY, on_progress=on_progress)
    return RunOutcome.of(job, run, made_by())


@functools.lru_cache(maxsize=FOLDS_AT_HAND)
def fold_of(data: str, fold: int) -> datasets.Fold:
    """Return a fold, kept for the next run."""
    return datasets.load(data, fold=fold)
