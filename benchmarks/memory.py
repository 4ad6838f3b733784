"""Section `memory`: what a run holds, each in a process of its own."""

from __future__ import annotations

from benchmarks import child
from benchmarks.section import Advance, Column, Effort, Row, Rows, Section
from perturank import catalogue

COLUMNS = (
    Column("state_mb", "ranker", "size", "{:,.1f}"),
    Column("compiled_mb", "before", "fact", "{:,.0f}"),
    Column("peak_mb", "peak", "size", "{:,.0f}"),
    Column("rounds", "rounds", "fact", "{:,.0f}"),
)


def measure(effort: Effort, advance: Advance) -> Rows:
    """Return a row per ranker."""
    rows: Rows = {}
    workloads = [
        child.Workload(catalogue.published(name).name, (0,), effort.rounds, effort.seconds) for name in effort.memory_of
    ]
    for name, measurement in zip(effort.memory_of, child.run_children(workloads, effort.patience), strict=True):
        rows[name] = Row(note=measurement.failure and f"{name}: {measurement.failure}")
        for found in measurement.values:
            sizes = {f"{what}_mb": found[f"{what}_bytes"] / 1e6 for what in ("state", "compiled", "peak")}
            rows[name].values |= {**sizes, "rounds": found["rounds"]}
        advance(name)
    return rows


SECTION = Section(
    "memory",
    "MB",
    "arrays of the ranker with room for the rounds; the process before the first round and at its peak",
    lambda effort: COLUMNS,
    lambda effort: len(effort.memory_of),
    measure,
)
