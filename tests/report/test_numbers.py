from __future__ import annotations

import math
from typing import Any

import numpy as np
from helpers.made_up import drawing, finals, finding
from pytest import approx
from scipy import stats

from perturank.experiments.experiment import Arm
from perturank.report import numbers
from perturank.report.numbers import Cell, Finals
from perturank.significance import Mean

ARMS = (Arm("other", "pdgd"), Arm("ours", "p2linrank", is_ours=True), Arm("third", "dbgd"))


def values() -> dict[str, dict[str, list[float]]]:
    """Return final values of three arms: one close to ours, one much worse, for two users."""
    draw = np.random.default_rng(3)
    shifts = {"ours": 0.0, "other": 0.005, "third": -0.2}
    return {
        arm: {user: list(0.5 + shift + draw.normal(0, 0.01, 6)) for user in ("perfect", "navigational")}
        for arm, shift in shifts.items()
    }


def made(**more: Any) -> Finals:
    return numbers.finals(finding([finals(values())], ARMS, **more))[0]


def test_marks_are_of_paired_tests_against_our_arm_corrected_over_all_users() -> None:
    given, found = values(), made()
    compared = [(arm, user) for arm in ("other", "third") for user in ("perfect", "navigational")]
    ps = {(a, u): float(stats.ttest_rel(given[a][u], given["ours"][u]).pvalue) for a, u in compared}
    by_size = sorted(ps, key=lambda place: ps[place])
    running = 0.0
    for i, place in enumerate(by_size):
        running = max(running, min(1.0, ps[place] * (len(ps) - i)))
        cell = found.cells[*place, "ndcg"]
        assert cell.p == approx(running)
        better = np.mean(given[place[0]][place[1]]) > np.mean(given["ours"][place[1]])
        assert cell.mark == ("" if running >= 0.05 else "▲" if better else "▼")
    assert found.cells["third", "perfect", "ndcg"].mark == "▼"


def test_our_arm_is_not_compared_with_itself_and_another_star_may_be_named() -> None:
    assert math.isnan(made().cells["ours", "perfect", "ndcg"].p)
    found = made(stars="third")
    assert found.star == "third"
    assert found.cells["ours", "perfect", "ndcg"].mark == "▲"


def test_the_best_of_a_user_is_the_largest_mean_or_the_smallest_where_less_is_better() -> None:
    given, found = values(), made()
    for user in found.users:
        best = max(given, key=lambda arm: float(np.mean(given[arm][user])))
        assert [arm for arm in found.arms if found.cells[arm, user, "ndcg"].is_best] == [best]
    evidence = finals({"ours": {"perfect": [1.0, 2.0]}, "other": {"perfect": [1.0, 2.0, 3.0]}})
    time = numbers.finals(finding([evidence], ARMS, drawings=(drawing("seconds"),)))[0]
    assert time.cells["ours", "perfect", "seconds"].is_best
    assert not time.cells["other", "perfect", "seconds"].is_best


def test_a_mark_says_better_where_less_is_better() -> None:
    assert Cell(Mean(1.0, 0.1, 9), p=0.01, advantage=0.2).mark == "▲"
    draw = np.random.default_rng(0)
    evidence = finals({"ours": {"perfect": [0.0] * 6}, "other": {"perfect": list(draw.normal(1, 0.1, 6))}})
    for runs in evidence.runs["ours"].values():
        for run in runs:
            run.measures["seconds"][-1] += 10 + draw.normal(0, 0.1)
    found = numbers.finals(finding([evidence], ARMS, drawings=(drawing("seconds"),)))[0]
    assert found.cells["other", "perfect", "seconds"].mark == "▲"


def test_a_measure_of_which_neither_end_is_better_has_no_best_and_no_marks() -> None:
    evidence = finals(values())
    for by_user in evidence.runs.values():
        for runs in by_user.values():
            for run in runs:
                run.measures["uncertain"][:] = run.job.seed
    found = numbers.finals(finding([evidence], ARMS, drawings=(drawing("uncertain"),)))[0]
    assert len(found.cells) == 6
    assert not any(cell.is_best or cell.mark or not math.isnan(cell.p) for cell in found.cells.values())


def test_time_per_round_is_the_median_over_all_runs_in_milliseconds() -> None:
    seconds = [2.0 + i for i in range(6)] * 2
    assert made().milliseconds["ours"] == approx(float(np.median(seconds)) / 1000 * 1000)


def test_arms_users_and_measures_without_runs_are_left_out() -> None:
    evidence = finals({"ours": {"perfect": [1.0], "navigational": []}, "other": {"perfect": []}})
    found = numbers.finals(finding([evidence], ARMS, drawings=(drawing(), drawing("uncertain"))))[0]
    assert (found.arms, found.users, list(found.measures)) == (("ours",), ("perfect",), ["ndcg"])
    assert numbers.finals(finding([finals({"ours": {}})], ARMS)) == []


def test_a_column_shows_two_digits_of_its_intervals() -> None:
    evidence = finals({"ours": {"perfect": [100.0, 102.0, 104.0]}})
    found = numbers.finals(finding([evidence], ARMS))[0]
    half = found.cells["ours", "perfect", "ndcg"].mean.half_width
    assert 1 <= half < 10
    assert found.decimals("perfect", "ndcg") == 1
