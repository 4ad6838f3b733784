from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import drift as oracle
from pytest import approx
from river.drift import PageHinkley

from perturank.drift import EVIDENCE, HORIZON, LEAST, LEAST_VARIANCE, TOLERANCE, Watch

ranks = st.sampled_from([1.0, 0.5, 1 / 3, 0.25, 0.1, -0.4])


def watched(values: list[float]) -> Watch:
    watch = Watch()
    for value in values:
        watch = watch.after(value)
    return watch


def alarms(values: list[float]) -> list[int]:
    watch, found = Watch(), []
    for i, value in enumerate(values):
        watch = watch.after(value)
        if watch.fall is not None:
            found.append(i)
            watch = watch.again()
    return found


@pytest.mark.parametrize("threshold", [2.0, 5.0, 12.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_sum_is_as_deep_as_rivers_when_river_tells_a_fall(threshold: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [*rng.choice([1.0, 0.5], 500, p=[0.9, 0.1]), *rng.choice([1.0, 0.5, 0.2], HORIZON - 500)]
    theirs: Any = PageHinkley(min_instances=1, delta=TOLERANCE, threshold=threshold, alpha=1.0, mode="down")
    mine = Watch()
    for value in values:
        theirs.update(value)
        mine = mine.after(value)
        assert theirs.drift_detected == (mine.depth > threshold)
        if theirs.drift_detected:
            break
    assert theirs.drift_detected


@settings(max_examples=50)
@given(st.lists(ranks, min_size=1, max_size=60))
def test_depth_and_mean_are_those_of_the_whole_stream(values: list[float]) -> None:
    watch = watched(values)
    depth, n, after = oracle.fall(values, HORIZON, TOLERANCE, LEAST)
    assert watch.depth == approx(depth, abs=1e-9)
    if depth > 0 and watch.n - watch.n_then == n:  # two highest points may be equal but for rounding
        assert watch.total_since / n == approx(after)


def test_beyond_the_horizon_the_mean_follows_the_newer_values() -> None:
    values = np.random.default_rng(1).choice([1.0, 0.5], 3 * HORIZON).tolist()
    assert watched(values).mean == approx(oracle.means(values, HORIZON)[-1])
    assert watched(values).variance == approx(np.var(values[-HORIZON:]), rel=0.1)


def test_a_fall_is_told_once_with_its_size() -> None:
    rng = np.random.default_rng(2)
    before, after = rng.choice([1.0, 0.5], 600, p=[0.9, 0.1]), rng.choice([1.0, 0.25], 400, p=[0.5, 0.5])
    values = [*before, *after]
    (at,) = alarms(values[:700])
    assert 600 < at < 640
    found = watched(values[: at + 1]).fall
    assert found is not None
    _, n, mean = oracle.fall(values[: at + 1], HORIZON, TOLERANCE, LEAST)
    assert found.n == n
    assert found.after == approx(mean)
    assert found.before == approx(before[: at + 1 - n].mean())
    assert found.after < found.before - 0.05


def test_a_rise_is_no_fall() -> None:
    values = np.repeat([0.25, 0.5, 1.0], 400).tolist()
    assert alarms(values) == []


def test_few_bad_lists_after_many_good_ones_are_no_fall() -> None:
    n = int(EVIDENCE * LEAST_VARIANCE / (2 * TOLERANCE))  # each adds at most 1 to the depth
    assert alarms([1.0] * 500 + [0.0] * n) == []
    assert len(alarms([1.0] * 500 + [0.0] * 4 * n)) == 1


@pytest.mark.parametrize("p_first", [0.95, 0.8, 0.5, 0.2])
def test_streams_that_stay_as_they_are_are_seldom_told_to_fall(p_first: float) -> None:
    rng = np.random.default_rng(3)
    others = [(1 - p_first) / 3] * 3
    found = [alarms(rng.choice([1.0, 0.5, 1 / 3, 0.1], 20_000, p=[p_first, *others]).tolist()) for _ in range(3)]
    assert sum(map(len, found)) <= 6  # in 60,000 lists


def test_a_high_value_among_the_first_neither_makes_the_next_ones_a_fall_nor_hides_a_later_one() -> None:
    assert alarms([3.0, *[0.5] * 200]) == []
    (at,) = alarms([3.0, *[0.5] * 200, *[0.1] * 100])
    assert at < 260
