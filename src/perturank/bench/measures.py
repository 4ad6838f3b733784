"""What a section of the benchmark says: rows of numbers, and what kind of number each column holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from perturank.bench.effort import Effort

# rate: more is better, time: less is better, both measured against the machine's own speed;
# share: more is better, size: less is better, neither depends on the machine's speed; fact: not compared.
Kind = Literal["rate", "time", "share", "size", "fact"]
Advance = Callable[[str], None]
TAIL = "p99"  # ends the names of rows that hold too few calls to be compared
ORACLE = "oracle"  # begins the names of rows that are there to be compared with, not with themselves


@dataclass(frozen=True)
class Column:
    """A column: its key in the JSON, its heading, what it holds, and how it is written."""

    key: str
    heading: str
    kind: Kind
    style: str = ""  # none: three digits that count

    def written(self, value: float | None) -> str:
        """Return the number as a person reads it.

        >>> column = Column("ms", "ms", "time")
        >>> [column.written(value) for value in (1234.5, 12.345, 0.012345, None)]
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

    `measured(effort, advance)` calls `advance(name)` after each of `n_steps(effort)` steps.
    """

    name: str
    unit: str  # of what its columns hold, where they hold the same
    title: str
    columns: Callable[[Effort], tuple[Column, ...]]
    n_steps: Callable[[Effort], int]
    measured: Callable[[Effort, Advance], Rows]
    footnote: str = ""


@dataclass(frozen=True)
class Part:
    """A section as it was measured."""

    unit: str
    title: str
    columns: tuple[Column, ...]
    rows: Mapping[str, Row]
    seconds: float
    processor_seconds: float
    footnote: str = ""
