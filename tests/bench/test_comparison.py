from __future__ import annotations

from typing import Any

import pytest

from benchmarks.comparison import SLOWER, compare

KINDS = {"s": {"rate": "rate", "ms": "time", "mb": "size", "share": "share", "rounds": "fact"}}


def report(gflops: float = 50.0, section: str = "s", **values: float | None) -> dict[str, Any]:
    return {
        "calibration": {"gflops": gflops},
        "kinds": {section: KINDS["s"]},
        "sections": {section: {"row": {**values, "note": "words"}}},
    }


def verdicts(before: dict[str, Any], now: dict[str, Any]) -> dict[str, str]:
    return {change.column: change.verdict for change in compare(before, now).changes}


def test_a_report_is_as_fast_as_itself() -> None:
    same = report(rate=10.0, ms=3.0, mb=5.0, share=0.5, rounds=7)
    assert verdicts(same, same) == dict.fromkeys(("rate", "ms", "mb", "share"), "same")
    assert {change.ratio for change in compare(same, same).changes} == {1.0}


def test_a_machine_of_half_the_speed_makes_nothing_slower() -> None:
    before, now = report(80, rate=10.0, ms=3.0, mb=5.0), report(40, rate=5.0, ms=6.0, mb=5.0)
    assert [change.ratio for change in compare(before, now).changes] == [1.0, 1.0, 1.0]


def test_what_got_slower_and_faster_is_marked_beyond_the_limit() -> None:
    before = report(rate=100.0, ms=1.0, mb=1.0, share=0.5)
    now = report(rate=100 / (SLOWER + 0.01), ms=SLOWER - 0.01, mb=SLOWER + 0.01, share=1.0)
    assert verdicts(before, now) == {"rate": "slower", "ms": "same", "mb": "slower", "share": "faster"}
    assert [change.column for change in compare(before, now).of("slower")] == ["rate", "mb"]


def test_the_speed_is_that_of_the_machine_when_the_section_began() -> None:
    before, now = report(80, ms=3.0), report(80, ms=6.0)
    now["calibration"]["sections"] = {"s": 40.0}
    assert verdicts(before, now) == {"ms": "same"}


def test_numbers_of_one_report_alone_are_missing_or_new() -> None:
    assert verdicts(report(rate=1.0, ms=None), report(rate=None, ms=1.0)) == {"rate": "missing", "ms": "new"}
    assert verdicts(report(rate=None), report(rate=None)) == {}


def test_sections_that_were_not_measured_now_are_not_missing() -> None:
    assert [change.section for change in compare(report(section="old", ms=1.0), report(ms=1.0)).changes] == ["s"]


@pytest.mark.parametrize("row", ["p2neurrank, rank, p99", "oracle of p2neurrank, whole history"])
def test_tails_of_latencies_and_the_oracle_are_not_compare(row: str) -> None:
    one, other = report(), report()
    one["sections"]["s"], other["sections"]["s"] = {row: {"ms": 1.0}}, {row: {"ms": 9.0}}
    assert compare(one, other).changes == ()


def test_a_ratio_that_cannot_be_told_is_no_alarm() -> None:
    assert verdicts(report(ms=0.0), report(ms=1.0)) == {"ms": "same"}
