"""`perturank demo`: every ranker, a table and a figure."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from perturank.cli.later import demo
from perturank.cli.printing import progress, table, to_people
from perturank.cli.workers import side_by_side

if TYPE_CHECKING:
    from perturank.demo import Outcome


def demonstrate(
    rounds: Annotated[int, typer.Option(help="Rounds for each ranker.", min=1)] = 300,
    jobs: Annotated[int, typer.Option(help="Rankers that run at the same time.", min=1)] = min(4, os.cpu_count() or 1),
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("demo"),
) -> None:
    """Run every ranker for a few hundred rounds on embedded data: a table and a figure.

    [bold]Examples[/bold]

    perturank demo

    perturank demo --rounds 1000 --out /tmp/demo
    """
    figure = demo.figure_in(out)  # first: an unwritable folder is said before the work, not after it
    names = demo.names()
    outcomes = []
    with progress() as bar:
        task = bar.add_task("rankers", total=len(names))
        for outcome in side_by_side(functools.partial(demo.outcome, rounds=rounds), names, jobs):
            outcomes.append(outcome)
            bar.update(task, advance=1, description=f"{outcome.name}, {rounds} rounds")
    outcomes.sort(key=lambda outcome: -outcome.cumulative_ndcg)
    to_people(_outcomes_table(outcomes, rounds))
    demo.draw(outcomes, rounds, figure)
    typer.echo(f"figure: {figure}")


def _outcomes_table(outcomes: list[Outcome], rounds: int) -> Table:
    """Return one row per ranker; the best of each column in bold."""
    title = f"{rounds} rounds on {demo.DATA}, {demo.USER} users"
    listed = table(title, "ranker", "NDCG@10 offline", "cumulative NDCG", "rounds/s", numbers=True)
    columns = [
        _best_in_bold([outcome.ndcg for outcome in outcomes], "{:.3f}"),
        _best_in_bold([outcome.cumulative_ndcg for outcome in outcomes], "{:.1f}"),
        _best_in_bold([outcome.rounds_per_second for outcome in outcomes], "{:,.0f}"),
    ]
    for outcome, cells in zip(outcomes, zip(*columns, strict=True), strict=True):
        listed.add_row(outcome.name, *cells)
    return listed


def _best_in_bold(values: list[float], style: str) -> list[str]:
    best = max(values)
    return [f"[bold]{style.format(value)}[/bold]" if value == best else style.format(value) for value in values]
