from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx, mark
from scipy import stats

from perturank import significance

numbers = st.floats(-100, 100).map(lambda x: round(x, 3))
p_values = st.lists(st.floats(0, 1), max_size=8)


@given(st.lists(numbers, min_size=2, max_size=20))
def test_the_interval_is_students(values: list[float]) -> None:
    found = significance.mean(values)
    assert found.value == approx(sum(values) / len(values))
    error = math.sqrt(sum((v - found.value) ** 2 for v in values) / (len(values) - 1) / len(values))
    assert found.half_width == approx(stats.t.interval(0.95, len(values) - 1)[1] * error, abs=1e-12)
    assert found.n == len(values)


def test_unknown_values_do_not_count_and_one_value_has_no_interval() -> None:
    assert significance.mean([1.0, math.nan, 3.0]) == significance.mean([1.0, 3.0])
    alone, none = significance.mean([2.0]), significance.mean([])
    assert (alone.value, alone.n) == (2.0, 1)
    assert math.isnan(alone.half_width)
    assert math.isnan(none.value)
    assert none.n == 0


@mark.parametrize("n", [2, 5, 50])
@mark.parametrize("shift", [0.0, 0.3, 2.0])
def test_the_paired_test_is_scipys(n: int, shift: float) -> None:
    draw = np.random.default_rng(n)
    a, b = draw.normal(shift, 1, n), draw.normal(0, 1, n)
    assert significance.paired(a - b) == approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)


def test_differences_without_spread_are_certain_and_one_alone_says_nothing() -> None:
    assert significance.paired([0.0, 0.0, 0.0]) == 1.0
    assert significance.paired([0.5, 0.5]) == 0.0
    assert math.isnan(significance.paired([0.5]))


@given(p_values)
def test_holm_rejects_as_the_step_down_procedure_does(ps: list[float]) -> None:
    corrected = significance.holm(ps)
    for level in (0.01, 0.05, 0.2):
        assert [p <= level for p in corrected] == _stepped_down(ps, level)


@given(p_values)
def test_holm_keeps_the_order_and_never_lowers(ps: list[float]) -> None:
    corrected = significance.holm(ps)
    assert all(p <= c <= 1 for p, c in zip(ps, corrected, strict=True))
    pairs = sorted(zip(ps, corrected, strict=True))
    assert [c for _, c in pairs] == sorted(corrected)


def test_holm_leaves_what_is_unknown_out_of_the_count() -> None:
    corrected = significance.holm([0.01, math.nan, 0.03])
    assert corrected[0] == approx(2 * 0.01)
    assert math.isnan(corrected[1])
    assert corrected[2] == approx(0.03)


def _stepped_down(ps: list[float], level: float) -> list[bool]:
    """Reject the smallest while it is at most level / (how many are left), then stop: Holm as he wrote it."""
    rejected = [False] * len(ps)
    left = sorted(range(len(ps)), key=lambda i: ps[i])
    while left and ps[left[0]] * len(left) <= level:
        rejected[left.pop(0)] = True
    return rejected
