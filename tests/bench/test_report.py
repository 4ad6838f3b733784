from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import BenchmarkReport, read_report, this_machine, write_report
from benchmarks.section import Column, Row, SectionResult
from perturank.errors import BadInput

PART = SectionResult(
    "ms", "title", (Column("ms", "ms", "time"), Column("n", "n", "fact")), {"a": Row({"ms": 1.5}, "why")}, 2.0, 1.5
)
REPORT = BenchmarkReport({"gflops": 50.0, "threads": 1}, this_machine(), {"growth": PART}, 3.0)


def test_a_report_has_the_keys_that_later_versions_compare() -> None:
    plain = REPORT.as_dict()
    assert plain["sections"] == {"growth": {"a": {"ms": 1.5, "n": None, "note": "why"}}}
    assert plain["kinds"] == {"growth": {"ms": "time", "n": "fact"}}
    assert plain["calibration"]["gflops"] == 50
    assert {"cpus", "python", "jax", "numpy", "processor"} <= set(plain["machine"])


def test_a_report_is_read_as_it_was_written_and_leaves_nothing_beside(tmp_path: Path) -> None:
    write_report(REPORT.as_dict(), tmp_path / "old.json")
    assert read_report(tmp_path / "old.json") == REPORT.as_dict()
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "No such file"),
        ("{", "is not JSON"),
        ("[]", "was not written by the benchmark"),
        ('{"format": 1}', "was not written by the benchmark"),
        ({"calibration": {"gflops": 0}}, "was not written by the benchmark"),
        ({"calibration": None}, "was not written by the benchmark"),
        ({"sections": {"fit": []}}, "was not written by the benchmark"),
        ({"sections": {"fit": {"row": 3}}}, "was not written by the benchmark"),
        ({"format": 99}, "has format 99"),
    ],
)
def test_a_foreign_file_is_refused_in_one_line(content: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(REPORT.as_dict() | content))
    with pytest.raises(BadInput, match=said) as refused:
        read_report(path)
    assert "\n" not in str(refused.value)
