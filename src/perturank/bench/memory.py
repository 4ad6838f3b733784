"""Section `memory`: what a run holds, each in a process of its own."""

from __future__ import annotations

from perturank import catalogue
from perturank.bench import child
from perturank.bench.effort import Effort
from perturank.bench.measures import Advance, Column, Row, Rows, Section

COLUMNS = (
    Column("state_mb", "ranker", "size", "{:,.1f}"),
    Column("compiled_mb", "before", "fact", "{:,.0f}"),
    Column("peak_mb", "peak", "size", "{:,.0f}"),
    Column("rounds", "rounds", "fact", "{:,.0f}"),
)


def measured(effort: Effort, advance: Advance) -> Rows:
    """Return a row per ranker."""
    rows: Rows = {}
    jobs = [child.Job(catalogue.published(name).name, (0,), effort.rounds, effort.seconds) for name in effort.memory_of]
    for name, outcome in zip(effort.memory_of, child.outcomes(jobs, effort.patience), strict=True):
        rows[name] = Row(note=outcome.failure and f"{name}: {outcome.failure}")
        for found in outcome.measured:
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
    measured,
)
