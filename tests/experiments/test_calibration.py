from __future__ import annotations

import numpy as np
import pytest
from helpers.made_up import outcome

from perturank import catalogue
from perturank.experiments import experiments
from perturank.experiments.calibration import EXPERIMENT, EXPLORING, log_slope
from perturank.experiments.evidence import Evidence
from perturank.experiments.grids import GREEDY, GREEDY_HEADS
from perturank.experiments.reversals import CONTROL_REVERSED, REVERSED

PERTURBED = ("p2linrank", "p2neurrank", "p2headrank")
CONTROLS = (GREEDY, GREEDY_HEADS)
ROUNDS = [10, 100, 500, 1000]
FALLS, TRUSTED = EXPERIMENT.claims


def evidence(uncertain: list[float], excess: float, seeds: int = 5) -> Evidence:
    """Return runs whose shares are these in the mean, with a little noise."""
    draw = np.random.default_rng(2)
    runs = [
        outcome(
            {
                "uncertain": np.array(uncertain) + draw.normal(0, 1e-4, 4),
                REVERSED: 0.2 + excess + draw.normal(0, 1e-3, 4),
                CONTROL_REVERSED: np.full(4, 0.2),
            },
            ROUNDS,
            seed=seed,
        )
        for seed in range(seeds)
    ]
    return Evidence("synthetic", {EXPLORING[0]: {"perfect": runs}})


def test_a_share_that_falls_is_borne_out_and_one_that_rises_is_not() -> None:
    assert FALLS.check(evidence([0.9, 0.5, 0.4, 0.3], 0)).holds is True
    assert FALLS.check(evidence([0.9, 0.5, 0.6, 0.7], 0)).holds is False


def test_only_the_last_factor_of_ten_counts_for_the_slope() -> None:
    run = outcome({"uncertain": [0.9, 0.1, 0.1, 0.1]}, ROUNDS)
    assert log_slope(run) == pytest.approx(0)
    run = outcome({"uncertain": [0.0, *(0.5 - 0.1 * np.log(ROUNDS[1:]))]}, ROUNDS)
    assert log_slope(run) == pytest.approx(-0.1)


def test_certain_orders_may_be_reversed_as_often_as_the_controls_but_no_oftener() -> None:
    falling = [0.9, 0.5, 0.4, 0.3]
    assert TRUSTED.check(evidence(falling, -0.05)).holds is True
    assert TRUSTED.check(evidence(falling, 0.05)).holds is False
    assert TRUSTED.check(evidence(falling, 0.05, seeds=1)).holds is None
    assert TRUSTED.check(Evidence("synthetic", {})).holds is None


@pytest.mark.parametrize("name", ["linear-rankers", "neural-rankers", "calibration"])
def test_a_greedy_control_and_pdgd_stand_beside_exploring_rankers(name: str) -> None:
    arms = {arm.label: arm for arm in experiments()[name].arms}
    assert "PDGD" in arms
    greedy = [arm for arm in arms.values() if arm.changes in CONTROLS]
    assert {arm.ranker for arm in greedy} == {arm.ranker for arm in arms.values() if arm.ranker in PERTURBED}
    for arm in greedy:
        settings = catalogue.published(arm.ranker).settings.changed(**arm.changes).as_dict()
        assert settings["noise_std"] == settings["floor"] == 0
        assert settings["n_rankers"] == 1 or arm.ranker == "p2headrank"


def test_the_claims_are_about_arms_that_explore() -> None:
    assert not any(arm.label in EXPLORING for arm in EXPERIMENT.arms if arm.changes in CONTROLS)
    assert "PDGD" not in EXPLORING
