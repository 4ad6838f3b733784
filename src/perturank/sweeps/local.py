"""Runs on this machine: a process per core, one thread each; whoever is free takes the next run."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from perturank import machine
from perturank.errors import BadInput
from perturank.results.job import Job
from perturank.results.store import Store
from perturank.sweeps.worker import Done, Rounds, program, run_worker

Told = Callable[[Job, int], None]  # a run under way and how many more of its rounds are done
Finished = Callable[[Job], None]


@dataclass
class Worker:
    """A process and what it does now."""

    process: BaseProcess
    pipe: Connection
    job: Job | None = None
    last: object = None  # the program it has compiled


def run_jobs(jobs: Sequence[Job], store: Store, n_workers: int, on_rounds: Told, on_finished: Finished) -> None:
    """Run all jobs and keep their results; returns when the last is kept, and leaves no process behind."""
    waiting = list(jobs)
    with _workers(min(n_workers, len(waiting)), store) as workers:
        for worker in workers:
            _assign(worker, waiting, workers)
        while busy := [worker for worker in workers if worker.job is not None]:
            for pipe in wait([worker.pipe for worker in busy]):
                worker = next(each for each in busy if each.pipe is pipe)
                _receive(worker, on_rounds, on_finished)
                if worker.job is None:
                    _assign(worker, waiting, workers)


def _receive(worker: Worker, on_rounds: Told, on_finished: Finished) -> None:
    job = worker.job
    assert job is not None
    try:
        said: Rounds | Done = worker.pipe.recv()
    except (EOFError, OSError):
        raise _ended(worker, job) from None
    if isinstance(said, Rounds):
        on_rounds(job, said.n)
    elif said.is_ours:
        raise RuntimeError(f"{job.ranker} on {job.data}, {job.user} users, seed {job.seed}:\n{said.failure}")
    elif said.failure:
        raise BadInput(said.failure)
    else:
        worker.job = None
        on_finished(job)


def _assign(worker: Worker, waiting: list[Job], workers: Sequence[Worker]) -> None:
    """Hand out a run: of the program the worker has compiled, else of one that nobody else has, else any."""
    taken = {each.last for each in workers if each.job is not None}
    chosen = next((job for job in waiting if program(job) == worker.last), None)
    chosen = chosen or next((job for job in waiting if program(job) not in taken), None)
    chosen = chosen or (waiting[0] if waiting else None)
    worker.job = chosen
    if chosen is not None:
        waiting.remove(chosen)
        worker.last = program(chosen)
        try:
            worker.pipe.send(chosen)
        except OSError:
            raise _ended(worker, chosen) from None


def _ended(worker: Worker, job: Job) -> BadInput:
    worker.process.join()
    return BadInput(
        f"the process that ran {job.ranker} on {job.data} ended with code {worker.process.exitcode}",
        "was it killed for want of memory? what is finished is kept: the same command goes on",
    )


@contextmanager
def _workers(n: int, store: Store) -> Iterator[list[Worker]]:
    fresh = multiprocessing.get_context("spawn")  # a fork would inherit JAX's locks but not its threads
    machine.keep_compiled_programs()
    workers = []
    try:
        for _ in range(n):
            ours, theirs = fresh.Pipe()
            process = fresh.Process(target=run_worker, args=(theirs, store.folder, os.getpid()), daemon=True)
            process.start()
            theirs.close()  # so that its end is noticed when the process ends
            workers.append(Worker(process, ours))
        yield workers
    finally:
        for worker in workers:
            worker.pipe.close()
            worker.process.terminate()
            worker.process.join()
