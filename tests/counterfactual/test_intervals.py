"""Intervals of skewed means and of ratios: how often they hold the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks import counterfactual as bench
from perturank.counterfactual import LoggedLists, evaluate, intervals
from perturank.counterfactual.regression import cross_fitted


def test_without_skewness_the_interval_of_a_mean_is_the_usual_one() -> None:
    deviations = np.tile([-1.0, 1.0], 50)
    low, high = intervals.of_mean(3.0, deviations)
    half = stats.norm.ppf(0.975) * deviations.std(ddof=1) / 10
    assert (low, high) == pytest.approx((3 - half, 3 + half))


def test_a_long_tail_above_lifts_the_interval() -> None:
    deviations = np.random.default_rng(0).exponential(size=200) - 1
    deviations -= deviations.mean()
    low, high = intervals.of_mean(0.0, deviations)
    assert high > -low > 0


def test_the_interval_of_equal_numbers_is_a_point_and_that_of_a_ratio_is_not() -> None:
    assert intervals.of_mean(2.0, np.zeros(10)) == (2.0, 2.0)
    low, high = intervals.of_ratio(1.0, np.zeros(100), np.ones(100), (0.0, 1.0))
    assert low < 1 < high
    assert 1 - low < 0.03
    assert intervals.of_ratio(1.0, np.zeros(3), np.ones(3), (0.0, 1.0)) == (-np.inf, np.inf)


def test_the_interval_of_a_ratio_has_ends_whose_deviations_are_just_significant() -> None:
    rng = np.random.default_rng(1)
    weights, rewards = rng.exponential(size=400), rng.random(400)
    shares = weights / weights.mean()
    ratio = float((shares * rewards).mean())
    for end in intervals.of_ratio(ratio, shares * (rewards - ratio), shares, (ratio, ratio)):
        gap = shares * (rewards - end)
        assert abs(gap.sum()) == pytest.approx(stats.norm.ppf(0.975) * np.sqrt((gap**2).sum()))


def test_a_right_regression_makes_the_direct_method_right() -> None:
    rng = np.random.default_rng(2)
    features, theta = rng.normal(size=(2, 4000, 2, 3)), rng.normal(size=3)
    rewards = features[0] @ theta + 0.1 * rng.normal(size=(4000, 2))
    found = cross_fitted(rewards, features[0], features[1], np.ones((4000, 2), bool))
    assert found.direct == pytest.approx(features[1] @ theta, abs=0.05)
    ones = np.ones((4000, 2))
    direct = evaluate(LoggedLists(rewards, ones, ones, predictions=found), ["dm"])["dm"]
    assert direct.value == pytest.approx(float((features[1] @ theta).sum(axis=1).mean()), abs=0.01)
    assert direct.support is None


@pytest.mark.long
def test_intervals_hold_the_truth_as_often_as_they_say(is_long: bool) -> None:
    """`python -m benchmarks.counterfactual` has it for all policies and rewards."""
    world = bench.World.of(1)
    rounds = 60 if is_long else 10
    other = bench.frozen(world, "pdgd-linear", {"learning_rate": 0.3}, rounds, seed=7)
    traffic = bench.Traffic.of(world, bench.frozen(world, "pdgd-linear", {}, rounds, seed=3), other)
    assert traffic.whole.sum(axis=1) == pytest.approx(1, abs=1e-5)
    least, most = (0.93, 0.97) if is_long else (0.86, 1.0)
    for user in bench.USERS if is_long else bench.USERS[1:2]:
        n = 1000 if is_long else 100
        found = bench.study(world, traffic, bench.User.named(user), "first-click", 3000, n, seed=5)
        for name in ("rips", "snrips", "cdr"):
            assert found[name].refused == 0
            assert least <= found[name].coverage <= most
        assert found["dm"].coverage < 0.5
