"""A section of the benchmark: how much it measures, and the rows and columns of its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

# rate: more is better, time: less is better, both measured against the machine's own speed;
# share: more is better, size: less is better, neither depends on the machine's speed; fact: not compared.
Kind = Literal["rate", "time", "share", "size", "fact"]
Advance = Callable[[str], None]
TAIL = "p99"  # ends the names of rows that hold too few calls to be compared
ORACLE = "oracle"  # begins the names of rows that are there to be compared with, not with themselves


@dataclass(frozen=True)
class Effort:
    """Sizes and seconds; the names of rows and columns follow from the sizes, so that equal names compare."""

    seconds: float = 0.25  # for each number
    rounds: int = 500  # of each ranker
    rankers: tuple[str, ...] = ()  # none: all
    queries: tuple[int, ...] = (300, 6000)
    at: tuple[int, ...] = (100, 1000, 5000)
    at_with_budget: tuple[int, ...] = (50_000,)
    documents: tuple[int, ...] = (10, 100, 1000, 5000)
    dimensions: tuple[int, ...] = (1000, 10_000)
    fit_documents: tuple[int, ...] = (1000, 50_000)
    fit_rankers: tuple[int, ...] = (2, 10)
    widths: tuple[int, ...] = (100, 100)
    memory_of: tuple[str, ...] = ("pdgd-linear", "p2linrank", "p2headrank", "p2neurrank", "olranknet")
    text_bytes: int = 12_000_000
    patience: float = 60.0  # seconds after which a child process is given up


STANDARD = Effort()
QUICK = Effort(
    seconds=0.1,  # and as many rounds as ever: other room would be another program to compile
    queries=(300,),
    at=(100, 1000),
    at_with_budget=(),
    documents=(10, 100),
    dimensions=(1000,),
    fit_documents=(1000,),
    memory_of=("pdgd-linear", "p2headrank", "p2neurrank"),
    text_bytes=4_000_000,
)
FULL = Effort(
    seconds=2.0,
    at=(100, 200, 500, 1000, 2000, 5000),
    dimensions=(1000, 3000, 10_000),
    memory_of=(
        "pdgd-linear",
        "p2linrank",
        "p2headrank",
        "p2neurrank",
        "p2neurrank-paper",
        "pairrank",
        "olranknet",
        "olranknet-diag",
    ),
    text_bytes=100_000_000,
    patience=300.0,
)


@dataclass(frozen=True)
class Column:
    """A column: its key in the JSON, its heading, what it holds, and how it is written."""

    key: str
    heading: str
    kind: Kind
    style: str = ""  # none: three digits that count

    def text(self, value: float | None) -> str:
        """Return the number as a person reads it.

        >>> column = Column("ms", "ms", "time")
        >>> [column.text(value) for value in (1234.5, 12.345, 0.012345, None)]
        ['1,234', '12.3', '0.0123', '–']
        """
        if value is None:
            return "–"
        if self.style:
            return self.style.format(value)
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"


@dataclass
class Row:
    """One thing measured: a number per column; None where it could not be had, and the note says why."""

    values: dict[str, float | None] = field(default_factory=dict)
    note: str = ""


Rows = dict[str, Row]


@dataclass(frozen=True)
class Section:
    """A part of the benchmark: its columns and rows depend on the effort alone.

    `measure(effort, advance)` calls `advance(name)` after each of `n_steps(effort)` steps.
    """

    name: str
    unit: str  # of what its columns hold, where they hold the same
    title: str
    columns: Callable[[Effort], tuple[Column, ...]]
    n_steps: Callable[[Effort], int]
    measure: Callable[[Effort, Advance], Rows]
    footnote: str = ""


@dataclass(frozen=True)
class SectionResult:
    """A section as it was measured."""

    unit: str
    title: str
    columns: tuple[Column, ...]
    rows: Mapping[str, Row]
    seconds: float
    processor_seconds: float
    footnote: str = ""
