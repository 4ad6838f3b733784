"""The same runs on a Ray cluster: data go out once, results come back one by one and are kept here."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from perturank import datasets, machine
from perturank.errors import BadInput
from perturank.results.job import Job
from perturank.results.outcome import to_parquet
from perturank.results.store import Store
from perturank.sweeps.local import Finished
from perturank.sweeps.worker import run_job

try:
    import ray
    from ray.exceptions import RayError
except ImportError:
    raise BadInput("--ray needs Ray", "pip install 'perturank[ray]'") from None

AHEAD = 4  # runs handed to the cluster for each of its cores: enough to keep it busy
PATIENCE = 5.0  # seconds for the cluster's head to answer
TRIES = 20  # of a run whose machine is lost


def run_jobs(jobs: Sequence[Job], store: Store, address: str, on_finished: Finished) -> None:
    """Run all jobs on the cluster and keep them here; a run whose machine is lost is made again elsewhere."""
    with _connected(address):
        n_cores = max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]
        remote = ray.remote(num_cpus=1, max_retries=TRIES)(result_file)
        folds: dict[tuple[str, int], Any] = {}
        waiting, under_way = list(jobs), dict[Any, Job]()
        while waiting or under_way:
            while waiting and len(under_way) < AHEAD * n_cores:
                job = waiting.pop(0)
                where = job.data, job.fold
                if where not in folds:
                    folds[where] = ray.put(datasets.load(job.data, fold=job.fold))
                under_way[remote.remote(job, folds[where])] = job
            for reference in ray.wait(list(under_way), num_returns=1)[0]:
                job = under_way.pop(reference)
                store.keep_file(job.key, _result(reference, job))
                on_finished(job)


def result_file(job: Job, fold: datasets.Fold) -> bytes:
    """Return the job's result as a file's bytes: what a machine of the cluster does."""
    machine.pin_threads(1)  # as local workers have; JAX reads it at its first computation, Ray has limited the rest
    jax.config.update(  # type: ignore[no-untyped-call]
        "jax_compilation_cache_dir", str(machine.cache_folder() / "compiled")
    )
    return to_parquet(run_job(job, fold))


def _result(reference: Any, job: Job) -> bytes:
    try:
        return ray.get(reference)
    except RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, BadInput):
            raise cause from None
        raise BadInput(
            f"the cluster could not run {job.ranker} on {job.data}: {str(error).strip().splitlines()[-1]}",
            "what is finished is kept: the same command goes on",
        ) from None


def _must_answer(address: str) -> None:
    """Refuse an address where nothing listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return  # "auto", "local" and the like
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except OSError as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> BadInput:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return BadInput(f"no Ray cluster answers at {address!r} ({reason})", "start one with: ray start --head")


@contextlib.contextmanager
def _connected(address: str) -> Iterator[None]:
    _must_answer(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, ignore_reinit_error=True)
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        raise _no_cluster(address, error) from None
    try:
        yield
    finally:
        ray.shutdown()
