from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from perturank import BadInput, datasets
from perturank.results.job import Job, settings_of
from perturank.results.store import Store, digest
from perturank.sweeps import local

DATA = "synthetic-linear:12"


def jobs(ranker: str = "pdgd-linear", rounds: int = 30, seeds: int = 2) -> list[Job]:
    content = datasets.content(DATA)
    settings = settings_of(ranker, {})
    return [
        Job(ranker, settings, DATA, content, 1, user, rounds, seed, (10, rounds))
        for user in ("perfect", "informational")
        for seed in range(1, seeds + 1)
    ]


def made(folder: Path, wanted: list[Job], n_workers: int) -> tuple[Store, list[Job]]:
    store, finished = Store.open(folder, {}), list[Job]()
    local.run_jobs(wanted, store, n_workers, lambda job, n: None, finished.append)
    return store, finished


def test_two_processes_give_the_results_of_one(tmp_path: Path) -> None:
    wanted = jobs()
    one, first = made(tmp_path / "one", wanted, 1)
    two, second = made(tmp_path / "two", wanted, 2)
    assert one.keys() == two.keys() == {job.key for job in wanted}
    assert digest(one.outcomes()) == digest(two.outcomes())
    assert len(first) == len(second) == len(wanted)


def test_a_mistake_in_a_run_stops_the_sweep_in_one_line_and_keeps_what_is_finished(tmp_path: Path) -> None:
    good, bad = jobs(seeds=1)[0], Job("pdgd-linear", "{}", "synthetic-linear:0", "x", 1, "perfect", 9, 1, (9,))
    store = Store.open(tmp_path, {})
    with pytest.raises(BadInput, match="n_queries is 0"):
        local.run_jobs([good, bad], store, 1, lambda job, n: None, lambda job: None)
    assert store.keys() == {good.key}


def test_a_worker_that_is_killed_is_said_and_the_rest_can_go_on(tmp_path: Path) -> None:
    wanted, killed = jobs(rounds=10_000, seeds=1), list[int]()

    def kill_one(job: Job, n: int) -> None:
        if not killed:
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            workers = [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
            killed.append(workers[-1])
            os.kill(killed[0], signal.SIGKILL)

    store = Store.open(tmp_path, {})
    with pytest.raises(BadInput, match=r"ended with code -9.*the same command goes on"):
        local.run_jobs(wanted, store, 1, kill_one, lambda job: None)
    done = store.keys()
    left = [job for job in wanted if job.key not in done]
    assert left
    local.run_jobs(left, store, 1, lambda job, n: None, lambda job: None)
    assert store.keys() == {job.key for job in wanted}
