"""Section `dimension`: the cost of a round in d. P² needs no d × d inverse (the paper's last claim on cost)."""

from __future__ import annotations

from benchmarks import child
from benchmarks.growth import exponent
from benchmarks.section import Advance, Column, Effort, Row, Rows, Section

NAMES = ("p2linrank", "pairrank")
MOST = 20  # rounds


def columns(effort: Effort) -> tuple[Column, ...]:
    """Return a column per dimension, the exponent of d, and rounds and memory at the largest."""
    at = (Column(f"ms_at_d_{d}", f"d = {d:,}", "time") for d in effort.dimensions)
    return (
        *at,
        Column("exponent", "exponent", "fact", "{:.2f}"),
        Column("rounds", "rounds", "fact", "{:,.0f}"),
        Column("peak_mb", "peak MB", "size", "{:,.0f}"),
    )


def measure(effort: Effort, advance: Advance) -> Rows:
    """Return a row per ranker; what was not done in time says so."""
    rows: Rows = {}
    for name in NAMES:
        row = rows[name] = Row()
        measurement = child.run_child(child.Workload(name, effort.dimensions, MOST, effort.seconds), effort.patience)
        for d, found in zip(effort.dimensions, measurement.values, strict=False):
            row.values[f"ms_at_d_{d}"] = 1e3 * found["seconds"] / found["rounds"]
            row.values |= {"rounds": found["rounds"], "peak_mb": found["peak_bytes"] / 1e6}
        row.values["exponent"] = exponent({d: row.values.get(f"ms_at_d_{d}") for d in effort.dimensions})
        row.note = measurement.failure and f"{name}: {measurement.failure}"
        advance(name)
    return rows


SECTION = Section(
    "dimension",
    "ms a round",
    "time per round against the number of features d; 8 queries of 20 documents",
    columns,
    lambda effort: len(NAMES),
    measure,
)
