"""`perturank bench`: one table of how fast everything is, and what got slower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from perturank import machine
from perturank.cli.interrupting import interruptible
from perturank.cli.later import bench, figures, serving
from perturank.cli.printing import progress, table, to_people, to_programs
from perturank.errors import BadInput

if TYPE_CHECKING:
    from perturank.bench import Comparison, Effort, Part, Report
    from perturank.bench.serving import Scale

WIDTH = 100


def benchmark(
    sections: Annotated[
        list[str] | None, typer.Argument(help="rankers, fit, growth, latency, dimension, memory, reading; or all.")
    ] = None,
    rankers: Annotated[str, typer.Option(help="Rankers of the first section, with commas between; or all.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes only.")] = False,
    full: Annotated[bool, typer.Option("--full", help="More sizes, and longer.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Seconds for each number.", min=0.01)] = None,
    threads: Annotated[int, typer.Option(help="Threads, as of one run.", min=1)] = 1,
    compare: Annotated[Path | None, typer.Option(help="An earlier --json file: mark what got slower.")] = None,
    fail_if_slower: Annotated[bool, typer.Option("--fail-if-slower", help="Then exit with code 1.")] = False,
    figure: Annotated[Path | None, typer.Option(help="File for a figure of the cost per round (PNG).")] = None,
    out: Annotated[Path | None, typer.Option(help="File for the JSON, beside the table.")] = None,
    service: Annotated[bool, typer.Option("--service", help="Measure the ranking service under load instead.")] = False,
    rate: Annotated[float, typer.Option(help="With --service: pairs of list and feedback a second.", min=1)] = 300.0,
    soak: Annotated[int, typer.Option(help="With --service: minutes at that rate.", min=0)] = 0,
    log: Annotated[str | None, typer.Option(help="With --service: its log; a new SQLite file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure speed and memory, each number beside the machine's own speed in the same run.

    [bold]Examples[/bold]

    perturank bench

    perturank bench rankers latency --quick

    perturank bench --json > old.json

    perturank bench --compare old.json --fail-if-slower

    perturank bench --service --rate 300 --soak 10
    """
    if service:
        _under_load(serving.Scale(rate=rate, soak_minutes=soak, log=log, seconds=seconds or 15.0), as_json)
        return
    if quick and full:
        raise BadInput("--quick and --full exclude each other", "give one of them, or neither")
    machine.pin_threads(threads)
    effort = bench.QUICK if quick else bench.FULL if full else bench.STANDARD
    named = tuple(name.strip() for name in rankers.split(",") if name.strip())
    effort = replace(effort, rankers=named, seconds=seconds or effort.seconds)
    old = None if compare is None else bench.read(compare)
    for path in (figure, out):
        _check_folder(path)
    if figure is not None and sections and "growth" not in sections:
        raise BadInput("--figure draws the section growth", "add growth to the sections")
    report = _measured(sections or [], effort)
    result = report.as_dict()
    comparison = None if old is None else bench.compared(old, result)
    if comparison is not None:
        result["comparison"] = comparison.as_list()
    if out is not None:
        bench.written(result, out)
    if as_json:
        to_programs(result)
    else:
        _print(report, comparison)
    if figure is not None:
        _draw(report, figure)
        if not as_json:
            typer.echo(f"figure: {figure}")
    if fail_if_slower and comparison is not None and comparison.of("slower"):
        raise typer.Exit(1)


def _under_load(scale: Scale, as_json: bool) -> None:
    """Run a service, load it, and print what it stood."""
    with progress() as bar, interruptible() as check:
        task = bar.add_task("the service starts", total=scale.n_steps)

        def advance(what: str) -> None:
            bar.update(task, advance=1, description=what)
            check()

        part = serving.measured(scale, advance)
    if as_json:
        to_programs({name: row.values for name, row in part.rows.items()})
        return
    listed = table(part.title, "", *(column.heading for column in part.columns), numbers=True)
    for name, row in part.rows.items():
        listed.add_row(name, *(column.written(row.values.get(column.key)) for column in part.columns))
    to_people(listed, WIDTH)


def _check_folder(path: Path | None) -> None:
    """Refuse a file that cannot be written before the work, not after it."""
    if path is not None and not path.absolute().parent.is_dir():
        raise BadInput(f"there is no folder {path.absolute().parent}", f"make it, or name another file than {path}")


def _measured(sections: list[str], effort: Effort) -> Report:
    chosen = bench.chosen(sections)
    with progress() as bar, interruptible() as check:
        task = bar.add_task("calibration", total=bench.n_steps(chosen, effort))

        def advance(what: str) -> None:
            bar.update(task, advance=1, description=what)
            check()

        return bench.measured(chosen, effort, advance)


def _print(report: Report, comparison: Comparison | None) -> None:
    peak, threads = report.calibration["gflops"], report.calibration["threads"]
    title = (
        f"perturank bench: {report.machine['processor']}, {threads} thread{'s' * (threads > 1)}, "
        f"matrix product {peak:.0f} GFLOP/s, JAX {report.machine['jax']}"
    )
    to_people(_whole_table(title, report.parts), WIDTH)
    for name, part in report.parts.items():
        notes = [part.title, part.footnote, *dict.fromkeys(row.note for row in part.rows.values())]
        to_people(f"\n[bold]{name}[/bold]: {'; '.join(filter(None, notes))}", WIDTH)
    spent = ", ".join(f"{name} {part.seconds:.0f}" for name, part in report.parts.items())
    typer.echo(
        f"\ntimes in {report.calibration['clock']}, latency by the wall clock; {report.seconds:.0f} s in all ({spent})"
    )
    if comparison is not None:
        to_people(_changes_table(comparison), WIDTH)


def _whole_table(title: str, parts: Mapping[str, Part]) -> Table:
    """Return one table; each section begins with its own headings and ends with its notes."""
    listed = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False)
    listed.add_column(overflow="fold", min_width=20)
    for _ in range(max(len(part.columns) for part in parts.values())):
        listed.add_column(justify="right", overflow="fold")
    for name, part in parts.items():
        listed.add_row()
        heading = f"[bold]{name}[/bold]" + (f", {part.unit}" if part.unit else "")
        listed.add_row(heading, *(f"[italic]{column.heading}[/italic]" for column in part.columns))
        for row_name, row in part.rows.items():
            listed.add_row(row_name, *(column.written(row.values.get(column.key)) for column in part.columns))
    return listed


def _changes_table(comparison: Comparison) -> Table:
    """Return what got slower or faster, and what only one of the two reports has."""
    slower, faster = comparison.of("slower"), comparison.of("faster")
    title = (
        f"{comparison.n_compared} numbers compared, calibration taken out: "
        f"{len(slower)} slower, {len(faster)} faster by more than {bench.SLOWER}×"
    )
    listed = table(title, "number", "before", "now", "times as slow", "", numbers=True)
    for change in (*slower, *faster, *comparison.of("missing", "new")):
        mark = f"[bold red]{change.verdict}[/bold red]" if change.verdict == "slower" else change.verdict
        numbers = ("–" if value is None else f"{value:,.3g}" for value in (change.before, change.now, change.ratio))
        listed.add_row(f"{change.section}: {change.row}, {change.column}", *numbers, mark)
    return listed


def _draw(report: Report, path: Path) -> None:
    figures.curves(
        bench.curves(report),
        x_label="round t",
        y_label="milliseconds per round",
        title="Cost of a round: rank, click and learn",
        path=path,
    )
