from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from results.made_up import outcome

from perturank import BadInput
from perturank.experiments import chosen, experiments
from perturank.experiments.experiment import Arm
from perturank.experiments.grids import points, searches
from perturank.experiments.planning import RunPlan, findings, plan_runs
from perturank.experiments.protocol import SCALES, Protocol, protocol
from perturank.results.job import Job
from perturank.results.outcome import RunOutcome

SOURCES = {"synthetic:12": ["one", "two"], "synthetic-linear": ["three"]}


def asked(**changes: Any) -> Protocol:
    fields: dict[str, Any] = {"data": ("synthetic:12",), "seeds": 2, "rounds": 20, "grid": "none"}
    return Protocol(**fields | changes)


def all_done(protocol: Protocol, score: Mapping[str, float] | None = None) -> tuple[RunPlan, dict[str, RunOutcome]]:
    """Plan, and pretend to run what is missing, until nothing is."""
    done: dict[str, RunOutcome] = {}
    while True:
        plan = plan_runs(protocol, SOURCES, done)
        missing = {key: job for key, job in plan.jobs.items() if key not in done}
        if not missing:
            return plan, done
        done |= {key: outcome(job, ndcg=_score(job)) for key, job in missing.items()}


def _score(job: Job) -> float:
    """Return a score whose best settings are λ nearest to 0.01, then the largest rate."""
    settings = job.chosen
    return -abs(np.log10(settings.get("l2", 1.0)) + 2) + 0.1 * settings.get("learning_rate", 0.0)


def test_every_figure_of_the_paper_has_its_experiment() -> None:
    drawn = {drawing.label for each in experiments().values() for drawing in each.drawings}
    figures = {
        *("fig:offline_linear", "fig:online_linear", "fig:offline_neural", "fig:online_neural"),
        *("fig:variance_01", "fig:variance_001", "fig:efficiency", "fig:neural_compare"),
        *("fig:offline_neural_model", "fig:online_neural_model", "theorem", "lemma:uncertain"),
        "calibration",  # our own
    }
    assert drawn == figures


def test_an_unknown_experiment_gets_the_nearest_name() -> None:
    with pytest.raises(BadInput, match="did you mean 'linear-rankers'"):
        chosen(["linear-ranker"])


def test_rankers_by_name_take_the_place_of_the_papers_arms() -> None:
    rankers = ("pdgd-linear", "perturank.rankers.pairrank:pairrank")
    plan, _ = all_done(asked(rankers=rankers, evaluations=(15, 5)))
    assert {run.condition.experiment for run in plan.runs} == {"comparison"}
    assert {(run.condition.arm, run.job.ranker) for run in plan.runs} == {(name, name) for name in rankers}
    assert {run.job.evaluate_at for run in plan.runs} == {(5, 15, 20)}
    replaced = chosen(["linear-rankers", "efficiency"], rankers)
    assert [each.name for each in replaced] == ["linear-rankers", "efficiency"]
    assert {arm.ranker for each in replaced for arm in each.arms} == set(rankers)
    assert not any(each.claims for each in replaced)
    assert protocol("demo", rankers=rankers).experiments == ()
    assert Protocol.from_dict(asked(rankers=rankers).as_dict()).rankers == rankers
    with pytest.raises(BadInput, match="rankers by name have no grid"):
        protocol("paper", rankers=rankers, grid="paper")
    with pytest.raises(BadInput, match="rounds go from 1 to 20"):
        asked(evaluations=(21,))


def test_an_unknown_scale_gets_the_nearest_name() -> None:
    with pytest.raises(BadInput, match="did you mean 'quick'"):
        protocol("quik")


def test_the_papers_protocol_is_the_papers() -> None:
    paper = SCALES["paper"]
    assert (paper.seeds, paper.rounds, paper.top, paper.folds) == (10, 5000, 10, None)
    assert paper.users == ("perfect", "navigational", "informational")
    arms = {arm.label: arm for arm in experiments()["linear-rankers"].arms}
    assert len(points(arms["PairRank"].grid)) == 16
    assert max(arms["PairRank"].wide["l2"]) == 100
    neural = {arm.label: arm for arm in experiments()["neural-rankers"].arms}
    assert len(points(neural["olRankNet-Diag"].grid)) == 48


def test_a_demo_runs_every_ranker_once() -> None:
    names = [
        arm.ranker
        for name in SCALES["demo"].experiments
        for arm in experiments()[name].arms
        if arm.label not in SCALES["demo"].without
    ]
    assert len(names) == len(set(names))
    assert {"p2linrank", "p2neurrank", "p2headrank"} <= set(names)


def test_a_protocol_survives_its_manifest() -> None:
    for scale in SCALES.values():
        assert Protocol.from_dict(scale.as_dict()) == scale


def test_without_a_search_there_is_one_run_for_each_arm_fold_user_and_seed() -> None:
    plan = plan_runs(asked(experiments=("linear-rankers",)), SOURCES, {})
    assert len(plan.runs) == len(plan.jobs) == len(experiments()["linear-rankers"].arms) * 2 * 3 * 2
    assert plan.n_waiting == 0
    assert {job.content for job in plan.jobs.values()} == {"one", "two"}
    assert {job.evaluate_on for job in plan.jobs.values()} == {"test"}


def test_experiments_share_their_runs() -> None:
    plan = plan_runs(asked(experiments=("neural-rankers", "perturbed-parameters")), SOURCES, {})
    places = {part.condition.experiment for part in plan.runs if part.job.ranker == "olranknet-diag"}
    assert places == {"neural-rankers", "perturbed-parameters"}
    assert len(plan.jobs) < len(plan.runs)


def test_an_experiment_with_data_of_its_own_ignores_the_protocols() -> None:
    plan = plan_runs(asked(experiments=("regret",)), SOURCES, {})
    assert {job.data for job in plan.jobs.values()} == {"synthetic-linear"}


@pytest.mark.parametrize("name", ["regret", "uncertain-orders"])
def test_the_theorem_is_tried_by_users_who_obey_its_proposition(name: str) -> None:
    plan = plan_runs(asked(experiments=(name,)), SOURCES, {})
    assert {job.user for job in plan.jobs.values()} == {"preferences"}
    learners = [job for job in plan.jobs.values() if job.ranker != "random"]
    assert learners
    assert all(job.chosen["examined_beyond"] >= job.top - 1 for job in learners)


def test_final_runs_wait_for_the_search_and_then_take_the_best() -> None:
    protocol = asked(experiments=("linear-rankers",), grid="paper")
    first = plan_runs(protocol, SOURCES, {})
    tuned = [arm for arm in experiments()["linear-rankers"].arms if arm.grid]
    assert first.n_waiting == len(tuned) * 2 * 3 * 2
    assert {part.job.evaluate_on for part in first.runs if part.role == "search"} == {"validation"}
    plan, _ = all_done(protocol)
    assert plan.n_waiting == 0
    finals = [part for part in plan.runs if part.role == "final" and part.job.ranker == "p2linrank-paper"]
    assert {part.job.chosen["l2"] for part in finals} == {0.01}
    assert {
        part.job.chosen["learning_rate"] for part in plan.runs if part.role == "final" and part.condition.arm == "PDGD"
    } == {0.1}
    assert {choice.among for _, choice in plan.choices if choice.arm == "PairRank"} == {16}


def test_a_wider_grid_is_reported_beside_the_papers() -> None:
    arm = Arm("P", "p2linrank-paper", {}, {"l2": (0.1, 1e-4)}, {"l2": (1e-4, 0.1, 10.0)})
    assert {label: len(found) for label, found in searches(arm, "wide").items()} == {"P": 2, "P, wider grid": 3}
    assert list(searches(arm, "paper")) == ["P"]
    assert searches(arm, "none") == {"P": [{}]}


def test_a_staged_search_plays_fewer_rounds_first_and_then_only_the_best() -> None:
    whole, _ = all_done(asked(experiments=("linear-rankers",), grid="paper", rounds=200))
    staged, _ = all_done(asked(experiments=("linear-rankers",), grid="paper", rounds=200, staged=True))

    def rounds(plan: RunPlan) -> int:
        return sum(job.rounds for job in plan.jobs.values() if job.evaluate_on == "validation")

    assert rounds(staged) < 0.6 * rounds(whole)
    assert {job.rounds for job in staged.jobs.values()} == {20, 200}

    def choices(plan: RunPlan) -> set[Any]:
        return {(place, tuple(choice.chosen.items())) for place, choice in plan.choices}

    assert choices(staged) == choices(whole)  # this pretended world looks the same after fewer rounds


def test_guessing_plans_as_many_final_runs_as_there_will_be() -> None:
    protocol = asked(experiments=("linear-rankers",), grid="wide")
    guessed = plan_runs(protocol, SOURCES, {}, guess=True)
    plan, _ = all_done(protocol)
    finals = [sum(part.role == "final" for part in each.runs) for each in (guessed, plan)]
    assert finals[0] == finals[1] > 0


def test_final_runs_of_an_experiment_that_asks_for_them_keep_their_orders() -> None:
    plan = plan_runs(asked(experiments=("linear-rankers", "calibration")), SOURCES, {})
    assert {(part.condition.experiment, part.job.keeps_orders) for part in plan.runs} == {
        ("linear-rankers", False),
        ("calibration", True),
    }


def test_findings_are_the_finished_final_runs_by_data_arm_and_user() -> None:
    protocol = asked(experiments=("linear-rankers", "regret"))
    plan, done = all_done(protocol)
    lost = next(part.job.key for part in plan.runs if part.condition.experiment == "linear-rankers")
    linear, regret = findings(protocol, SOURCES, {key: value for key, value in done.items() if key != lost})
    assert (linear.n_missing, regret.n_missing) == (1, 0)
    (evidence,) = linear.evidence
    assert evidence.data == "synthetic:12"
    assert len(evidence.runs["PDGD"]["perfect"]) == 4
    assert regret.evidence[0].data == "synthetic-linear"


def test_a_protocol_of_nothing_is_refused() -> None:
    for name in ("folds", "seeds", "rounds", "top", "tuning_seeds"):
        with pytest.raises(BadInput, match=name):
            asked(**{name: 0})
