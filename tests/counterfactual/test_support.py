"""Support, refusals, and the exploration that would be needed."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import counterfactual as oracle

from perturank.counterfactual import LoggedLists, evaluate, needed_exploration
from perturank.counterfactual import support as supports


def test_the_effective_sample_is_that_of_the_oracle() -> None:
    weights = np.random.default_rng(0).lognormal(size=(1000, 1))
    found = supports.of_weights(weights / weights.mean(), np.ones(1))
    assert found.effective == pytest.approx(oracle.effective(weights[:, 0].tolist()))
    assert found.share == pytest.approx(1)
    assert not found.refusal


def test_the_reach_says_what_the_weights_of_a_long_log_say() -> None:
    rng = np.random.default_rng(1)
    n, p = 200_000, np.array([0.5, 0.2])
    agrees = rng.random((n, 2)) < p
    prefix = np.cumprod(agrees / p, axis=1)
    stakes = np.array([0.0, 1.0])  # of one place alone, the bound is exact
    by_weights = supports.of_weights(prefix, stakes)
    by_reach = supports.of_reach(np.broadcast_to(np.cumprod(p), (n, 2)), stakes)
    assert by_reach.effective == pytest.approx(n * 0.1)
    assert by_weights.effective == pytest.approx(by_reach.effective, rel=0.05)


def test_a_certain_log_is_refused_and_says_why() -> None:
    n = 1000
    agrees = np.arange(n) % 4 == 0
    lists = LoggedLists(np.ones((n, 1)), np.ones((n, 1)), agrees[:, None])
    by_weights = evaluate(lists)["rips"]
    reached = LoggedLists(lists.rewards, lists.logged, lists.target, reach=agrees[:, None])
    for found in (by_weights, evaluate(reached)["rips"]):
        assert found.value is None
        assert found.gain is None
        assert found.support == pytest.approx(0.25)
        assert found.refusal == "A could have shown only 25.0% of what B shows"


def test_few_lists_in_effect_are_refused() -> None:
    lists = LoggedLists(np.ones((500, 1)), np.full((500, 1), 0.1), np.arange(500)[:, None] % 10 == 0)
    found = evaluate(lists)["snrips"]
    assert found.effective == pytest.approx(50)
    assert found.refusal == "the log is worth 50 lists of B, and an interval needs 200"


def test_probabilities_that_do_not_add_up_are_refused() -> None:
    n = 10_000
    lists = LoggedLists(np.ones((n, 1)), np.full((n, 1), 0.25), np.arange(n)[:, None] % 2 == 0)
    assert "do not add up" in evaluate(lists)["rips"].refusal


def test_with_the_exploration_that_is_said_to_be_needed_the_log_would_do() -> None:
    rng = np.random.default_rng(2)
    place = rng.choice([0.0, 0.5, 1.0], (1000, 3))
    reach, stakes, candidates = np.cumprod(place, axis=1), np.array([0.6, 0.3, 0.1]), [8] * 1000
    assert supports.of_reach(reach, stakes).refusal
    share, lists = needed_exploration(reach, stakes, candidates)
    above = np.column_stack([np.ones(1000), reach[:, :-1]])
    known = np.where(above > 0, place, 0)
    then = np.cumprod((1 - share) * known + share / (8 - np.arange(3)), axis=1)
    enough = np.tile(then, (int(np.ceil(lists / 1000)) + 1, 1))[: int(np.ceil(lists))]
    assert supports.of_reach(enough, stakes).effective == pytest.approx(supports.LEAST_EFFECTIVE, rel=0.05)


def test_a_log_that_explores_enough_needs_the_least_share() -> None:
    share, lists = needed_exploration(np.full((1000, 1), 0.9), np.ones(1), [10] * 1000)
    assert share == supports.SHARES[0]
    assert lists < 1000


def test_a_few_lists_that_are_seldom_shown_and_weigh_much_are_refused() -> None:
    reach = np.full((3000, 1), 0.5)
    assert not supports.of_reach(reach, np.ones(1)).refusal
    reach[:30] = 0.002  # one query in a hundred
    found = supports.of_reach(reach, np.ones(1))
    assert found.effective > supports.LEAST_EFFECTIVE
    assert "decide the spread" in found.refusal
