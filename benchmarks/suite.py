"""All sections of the benchmark, and the report of those that are measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from benchmarks import dimension, fit, growth, latency, memory, rankers, reading
from benchmarks.report import BenchmarkReport, this_machine
from benchmarks.section import Effort, Section, SectionResult
from benchmarks.timing import calibrate, processor_seconds
from perturank.errors import unknown

SECTIONS: dict[str, Section] = {
    module.SECTION.name: module.SECTION for module in (rankers, fit, growth, latency, dimension, memory, reading)
}


def sections_named(names: Sequence[str]) -> list[Section]:
    """Return the sections of these names, or all; an unknown name is refused."""
    for name in names:
        if name not in SECTIONS:
            raise unknown("section", name, SECTIONS)
    return [section for name, section in SECTIONS.items() if not names or name in names]


def n_steps(sections: Sequence[Section], effort: Effort) -> int:
    """Return how many steps these sections take; mistakes in the effort are found here, before the first."""
    return sum(section.n_steps(effort) for section in sections)


def measure(sections: Sequence[Section], effort: Effort, advance: Callable[[str], None]) -> BenchmarkReport:
    """Measure these sections and return the report; `advance` is called after every step."""
    began = time.perf_counter()
    calibration = calibrate(effort.seconds)
    by_section: dict[str, float] = {}
    parts = {}
    for section in sections:
        by_section[section.name] = calibrate(effort.seconds / 2)["gflops"]
        started, worked = time.perf_counter(), processor_seconds()
        rows = section.measure(effort, lambda what, name=section.name: advance(f"{name}: {what}"))  # type: ignore[misc]
        spent, work = time.perf_counter() - started, processor_seconds() - worked
        parts[section.name] = SectionResult(
            section.unit, section.title, section.columns(effort), rows, spent, work, section.footnote
        )
    calibration |= {"gflops": max(calibration["gflops"], *by_section.values()), "sections": by_section}
    return BenchmarkReport(calibration, this_machine(), parts, time.perf_counter() - began)
