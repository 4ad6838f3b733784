"""A simulation through a real service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.serving import Serving, run

from perturank import clicks, datasets
from perturank.catalogue import published
from perturank.client import Client
from perturank.errors import BadInput
from perturank.remote_simulation import simulate_through
from perturank.simulation import Plan, simulate


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    started = Serving(tmp_path_factory.mktemp("service"), PERTURANK_MAX_DOCUMENTS="64", PERTURANK_COMPILE_FIRST="false")
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="module")
def client(serving: Serving) -> Iterator[Client]:
    with serving.client(timeout=60.0) as client:
        yield client


def plan(ranker: str, batch: int = 1, seed: int = 1, data: str = "synthetic-linear", who: str = "navigational") -> Plan:
    fold = datasets.load(data)
    user = clicks.user(who, fold.n_grades)
    return Plan(ranker, published(ranker).settings, user, fold, 20, evaluate_at=(10,), batch=batch, seed=seed)


@pytest.mark.parametrize(
    "ranker, data, who",
    [
        ("p2headrank", "synthetic-linear", "navigational"),
        ("p2linrank", "synthetic-linear", "navigational"),
        ("pdgd-linear", "synthetic-linear", "navigational"),
        ("pdgd-linear", "synthetic-stream:20", "navigational"),
        ("pdgd-linear", "synthetic-linear", "preferences"),
    ],
)
def test_in_step_with_the_service_a_run_goes_through_the_lists_of_the_simulation(
    client: Client, ranker: str, data: str, who: str
) -> None:
    own = plan(ranker, batch=5, seed=3, data=data, who=who)
    here, there = simulate(own), simulate_through(own, client, f"in-step-{ranker}-{data.partition(':')[0]}-{who}")
    assert there.ndcgs == pytest.approx(here.ndcgs, abs=1e-6)
    for mine, its in zip(here.checkpoints, there.checkpoints, strict=True):
        assert its.round == mine.round
        assert its.ndcg == pytest.approx(mine.ndcg, abs=1e-6)
        assert its.cumulative_ndcg == pytest.approx(mine.cumulative_ndcg, abs=1e-5)
    assert there.behind == [0, 1, 2, 3, 4] * 4


def test_a_run_that_does_not_wait_ends_all_the_same(client: Client) -> None:
    run_through = simulate_through(plan("pdgd-linear"), client, "on-its-own", in_step=False)
    assert len(run_through.ndcgs) == 20
    assert min(run_through.behind) >= 0
    assert run_through.as_dict(10)["checkpoints"][-1]["round"] == 20


def test_a_model_that_has_learned_before_is_refused(client: Client) -> None:
    simulate_through(plan("pdgd-linear"), client, "used")
    with pytest.raises(BadInput, match="has learned from 20 lists"):
        simulate_through(plan("pdgd-linear"), client, "used")


def test_the_command_says_the_same_of_a_run_through_a_service(serving: Serving) -> None:
    words = ("simulate", "--ranker", "pdgd-linear", "--data", "synthetic-linear", "--rounds", "10", "--json")
    through = run(*words, "--through", serving.url, "--model", "typed")
    assert through.returncode == 0, through.stderr
    assert '"through"' in through.stdout
    refused = run(*words, "--through", serving.url, "--jobs", "2")
    assert refused.returncode == 2
    assert "without --checkpoint and --jobs" in refused.stderr
