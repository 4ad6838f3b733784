from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import anytime as oracle
from pytest import approx

from benchmarks.live_tests import interleaved_alarms, split_alarms
from perturank import anytime
from perturank.anytime import PRIOR, Earnings

credits = st.sampled_from([-10.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 10.0])


@settings(max_examples=30)
@given(st.lists(credits, max_size=30))
def test_evidence_is_the_mean_over_all_bets(differences: list[float]) -> None:
    total, squares = sum(differences), sum(d**2 for d in differences)
    assert float(anytime.log_evidence(total, squares)) == approx(oracle.log_evidence(differences, PRIOR), abs=1e-6)


@given(st.floats(0, 1e6), st.sampled_from([0.01, 0.05, 0.3]))
def test_a_sum_at_the_radius_has_just_enough_evidence(squares: float, level: float) -> None:
    radius = float(anytime.radius(squares, level))
    assert float(anytime.log_evidence(radius, squares)) == approx(-math.log(level))


@given(st.integers(1, 1000), st.floats(0.01, 500), st.floats(0.1, 1000))
def test_so_many_more_lists_decide_and_fewer_do_not(n: int, total: float, squares: float) -> None:
    more = anytime.n_more(n, total, squares, 0.05)

    def log_e(n_more: float) -> float:
        times = 1 + n_more / n
        return float(anytime.log_evidence(total * times, squares * times))

    assert math.isinf(more) or log_e(more) >= -math.log(0.05) - 1e-9
    assert more == 0 or log_e(min(more, 1e11) * (1 - 1e-6) - 2) < -math.log(0.05)


@given(st.dictionaries(st.text(max_size=3), st.tuples(st.integers(0, 1), st.lists(credits, min_size=1, max_size=4))))
def test_groups_that_grow_list_by_list_have_the_difference_of_the_definition(
    groups: dict[str, tuple[int, list[float]]],
) -> None:
    arms = [Earnings(), Earnings()]
    for arm, worths in groups.values():
        for i, worth in enumerate(worths):
            arms[arm] = arms[arm].grown(i, sum(worths[:i]), worth)
    found = anytime.split_difference(*arms)
    if not all(arm.lists for arm in arms):
        assert found.n == 0
        assert found.total == approx(0, abs=1e-9)
        return
    total, squares, difference = oracle.split_difference(groups)
    assert (found.total, found.squares) == (approx(total, abs=1e-9), approx(squares, abs=1e-8))
    assert found.total / found.n == approx(difference, abs=1e-9)


def test_arms_that_are_alike_seldom_alarm_however_often_somebody_looks() -> None:
    assert interleaved_alarms([1.0] * 9 + [10.0], n_tests=400, n_lists=1000) <= 0.05
    assert split_alarms(0.5, n_tests=400, n_lists=1000) <= 0.05


def test_a_test_of_one_look_that_is_looked_at_often_does_alarm() -> None:
    walks = np.cumsum(np.random.default_rng(1).choice([-1, 1], size=(400, 1000)), axis=1)
    assert np.mean((np.abs(walks) > 1.96 * np.sqrt(np.arange(1, 1001))).any(axis=1)) > 0.3  # the simulation can fail


def test_a_difference_is_found() -> None:
    draw = np.random.default_rng(2).choice([-1.0, 0.0, 1.0], p=[0.1, 0.7, 0.2], size=(200, 2000))
    totals, squares = np.cumsum(draw, axis=1), np.cumsum(draw**2, axis=1)
    decided = anytime.log_evidence(totals, squares) >= -math.log(0.05)
    assert decided.any(axis=1).mean() > 0.99
    assert (totals[decided] > 0).mean() > 0.99
