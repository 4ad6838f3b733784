"""The terminal: results on stdout, as tables for people or JSON for programs; progress on stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

WIDTH = 80


def to_people(shown: RenderableType, width: int = WIDTH) -> None:
    """Print a table that fits so many columns, and the terminal if there is one."""
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else width)
    console.print(shown, width=min(console.width, width))


def to_programs(value: Any, *, beside: bool = False) -> None:
    """Print one JSON value on a line of its own; `beside`: on stderr, where stdout is a file."""
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False), err=beside)


def progress(counts: bool = True) -> Progress:
    """Return a progress bar on stderr that leaves nothing behind; where nobody looks, none.

    It shows counts, or the share that is done.
    """
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn() if counts else TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def table(title: str, *columns: str, numbers: bool = False) -> Table:
    """Return an empty table; numbers stand on the right, the first column on the left."""
    empty = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for i, column in enumerate(columns):
        empty.add_column(column, justify="right" if numbers and i else "left", overflow="fold")
    return empty
