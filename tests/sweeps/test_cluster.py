from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sweeps.test_local import jobs, made

from perturank.results.job import Job
from perturank.results.store import Store, digest
from perturank.sweeps import cluster

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
ray_cluster = pytest.importorskip("ray.cluster_utils")
SECONDS = 300.0  # for one run, on however busy a machine: a cluster that has lost it for good would wait for ever


@pytest.fixture(autouse=True)
def nothing_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    wait, get = ray.wait, ray.get

    def waited(references: list[Any], **options: Any) -> Any:
        ready, rest = wait(references, timeout=SECONDS, **options)
        assert ready, f"none of {len(rest)} runs has come to its end; the cluster has {ray.cluster_resources()}"
        return ready, rest

    monkeypatch.setattr(ray, "wait", waited)
    monkeypatch.setattr(ray, "get", partial(get, timeout=SECONDS))


@pytest.fixture
def two_nodes() -> Iterator[tuple[Any, Any]]:
    """Start a head that runs nothing, and two nodes of one core each."""
    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    patient = soon | {"agent_register_timeout_ms": 300_000}
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": patient}
    found = ray_cluster.Cluster(initialize_head=True, head_node_args=head)
    try:
        first, second = (found.add_node(wait=False, num_cpus=1) for _ in range(2))
        found.wait_for_nodes(timeout=300)
        assert first is not second
        yield found, second
    finally:
        found.shutdown()


def test_a_node_is_killed_half_way_and_the_results_are_those_of_a_local_sweep(
    two_nodes: tuple[Any, Any], tmp_path: Path
) -> None:
    nodes, second = two_nodes
    wanted, finished = jobs(rounds=200, seeds=2), list[Job]()

    def kill_one(job: Job) -> None:
        finished.append(job)
        if len(finished) == len(wanted) // 2:
            nodes.remove_node(second, allow_graceful=False)

    store = Store.open(tmp_path / "cluster", {})
    cluster.run_jobs(wanted, store, nodes.address, kill_one)
    assert len(finished) == len(wanted)
    here, _ = made(tmp_path / "here", wanted, 1)
    assert digest(store.outcomes()) == digest(here.outcomes())
