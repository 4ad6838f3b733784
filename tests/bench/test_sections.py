"""Every section once, as small as it can be; never a time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks import child, fit, rankers, suite
from benchmarks.comparison import compare
from benchmarks.section import Effort
from perturank.errors import BadInput

TINY = Effort(
    seconds=0.01,
    rounds=5,
    rankers=("pdgd-linear", "random"),
    queries=(20,),
    at=(10,),
    at_with_budget=(),
    documents=(10,),
    dimensions=(20,),
    fit_documents=(20,),
    fit_rankers=(2,),
    widths=(4,),
    memory_of=("random",),
    text_bytes=1000,
)


@pytest.mark.parametrize("name", list(suite.SECTIONS))
def test_a_section_fills_its_columns_and_counts_its_steps(name: str) -> None:
    heard: list[str] = []
    section = suite.SECTIONS[name]
    report = suite.measure([section], TINY, heard.append)
    part = report.parts[name]
    assert len(heard) == suite.n_steps([section], TINY)
    assert part.rows
    for row in part.rows.values():
        assert set(row.values) <= {column.key for column in part.columns}
        assert any(value is not None for value in row.values.values()), row
        assert all(math.isfinite(value) for value in row.values.values() if value is not None)
    assert report.calibration["gflops"] > 0
    assert set(report.calibration["sections"]) == {name}
    assert [change.verdict for change in compare(report.as_dict(), report.as_dict()).changes if change.ratio] != []


def test_all_sections_are_chosen_unless_named_and_keep_their_order() -> None:
    assert [section.name for section in suite.sections_named([])] == list(suite.SECTIONS)
    assert [section.name for section in suite.sections_named(["reading", "fit"])] == ["fit", "reading"]


def test_heads_are_timed_at_two_sizes_of_the_ensemble_beside_networks() -> None:
    cases = rankers.cases(replace(TINY, rankers=("p2headrank", "p2neurrank")))
    assert [case.label for case in cases] == ["p2headrank, N = 2", "p2headrank, N = 10", "p2neurrank"]
    assert [case.settings.as_dict()["n_rankers"] for case in cases[:2]] == [2, 10]


def test_an_unknown_section_or_ranker_is_told_the_nearest_before_any_work() -> None:
    with pytest.raises(BadInput, match="did you mean 'latency'"):
        suite.sections_named(["latencies"])
    with pytest.raises(BadInput, match="did you mean 'p2linrank'"):
        suite.n_steps(suite.sections_named(["rankers"]), replace(TINY, rankers=("p2linrnk",)))


def test_operations_are_those_of_the_three_products_of_every_layer() -> None:
    d, m = 7, 5
    forward = 2 * (d * m + m * m + m)
    to_weights, to_inputs = forward, 2 * (m * m + m)
    assert fit.flops(3, 2, (m, m), d) == 3 * 2 * (forward + to_weights + to_inputs)


def test_a_process_that_fails_or_takes_too_long_says_so() -> None:
    assert "did you mean 'random'" in child.run_child(child.Workload("randon", (5,), 1, 0.01), 60).failure
    assert child.run_child(child.Workload("random", (5,), 1, 0.01), 1).failure.startswith("not done after ")
