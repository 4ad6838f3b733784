"""`perturank bench`: how fast everything is, each number beside the machine's own speed in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from perturank.bench import dimension, fit, growth, latency, memory, rankers, reading
from perturank.bench.calibration import calibrated
from perturank.bench.comparison import SLOWER, Change, Comparison, compared
from perturank.bench.effort import FULL, QUICK, STANDARD, Effort
from perturank.bench.measures import Column, Part, Section
from perturank.bench.report import Report, read, this_machine, written
from perturank.bench.timing import work_done
from perturank.errors import unknown

__all__ = [
    "FULL",
    "QUICK",
    "SECTIONS",
    "SLOWER",
    "STANDARD",
    "Change",
    "Column",
    "Comparison",
    "Effort",
    "Part",
    "Report",
    "chosen",
    "compared",
    "curves",
    "measured",
    "n_steps",
    "read",
    "written",
]

SECTIONS: dict[str, Section] = {
    module.SECTION.name: module.SECTION for module in (rankers, fit, growth, latency, dimension, memory, reading)
}


def chosen(names: Sequence[str]) -> list[Section]:
    """Return the sections of these names, or all; an unknown name is refused."""
    for name in names:
        if name not in SECTIONS:
            raise unknown("section", name, SECTIONS)
    return [section for name, section in SECTIONS.items() if not names or name in names]


def curves(report: Report) -> dict[str, dict[str, dict[int, float]]]:
    """Return the cost per round {t: ms} by number of queries and ranker, for a figure."""
    return growth.curves(report.parts[growth.SECTION.name].rows)


def n_steps(sections: Sequence[Section], effort: Effort) -> int:
    """Return how many steps these sections take; mistakes in the effort are found here, before the first."""
    return sum(section.n_steps(effort) for section in sections)


def measured(sections: Sequence[Section], effort: Effort, advance: Callable[[str], None]) -> Report:
    """Return the report of these sections; `advance` hears of every step."""
    began = time.perf_counter()
    calibration = calibrated(effort.seconds)
    by_section: dict[str, float] = {}
    parts = {}
    for section in sections:
        by_section[section.name] = calibrated(effort.seconds / 2)["gflops"]
        started, worked = time.perf_counter(), work_done()
        rows = section.measured(effort, lambda what, name=section.name: advance(f"{name}: {what}"))  # type: ignore[misc]
        spent = time.perf_counter() - started
        parts[section.name] = Part(
            section.unit, section.title, section.columns(effort), rows, spent, work_done() - worked, section.footnote
        )
    calibration |= {"gflops": max(calibration["gflops"], *by_section.values()), "sections": by_section}
    return Report(calibration, this_machine(), parts, time.perf_counter() - began)
