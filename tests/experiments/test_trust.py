from __future__ import annotations

import math
from dataclasses import replace

import pytest
from helpers.made_up import outcome

from perturank.experiments.evidence import Evidence
from perturank.experiments.trust import Trust, by_user
from perturank.results.outcome import RunOutcome

NDCGS = [0.1 * i for i in range(11)]


def run(ndcg: float, seed: int = 0, random_ndcg: float = 0.25, certain_wrong: float = math.nan) -> RunOutcome:
    ends = {"ndcg": [0.0, ndcg], "uncertain": [1.0, 0.5], "certain_wrong": [math.nan, certain_wrong]}
    return replace(outcome(ends, [1, 10], seed=seed), random_ndcg=random_ndcg)


def test_worst_run_tenth_percentile_mean_and_collapses() -> None:
    trust = Trust.of([run(ndcg, seed) for seed, ndcg in enumerate(NDCGS)])
    assert trust.n_runs == 11
    assert (trust.worst, trust.tenth, trust.mean) == pytest.approx((0.0, 0.1, 0.5))
    assert trust.collapses == pytest.approx(3 / 11)  # 0, 0.1 and 0.2 are below 0.25
    assert trust.uncertain == 0.5


def test_what_no_run_knows_is_not_a_number_and_what_some_know_is_of_those() -> None:
    unknown = Trust.of([run(0.5, random_ndcg=math.nan)])
    assert math.isnan(unknown.collapses)
    assert math.isnan(unknown.certain_wrong)
    some = Trust.of([run(0.5, 0, random_ndcg=math.nan), run(0.1, 1, certain_wrong=0.3)])
    assert (some.collapses, some.certain_wrong) == (1.0, 0.3)


def test_arms_and_users_without_runs_are_left_out() -> None:
    evidence = Evidence("synthetic", {"ours": {"perfect": [run(0.5)], "other": []}, "theirs": {"perfect": []}})
    assert [(user, list(trusts)) for user, trusts in by_user(evidence)] == [("perfect", ["ours"])]
