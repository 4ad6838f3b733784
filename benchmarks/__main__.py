"""The command line of the benchmarks: one table of how fast everything is, and what got slower."""

from __future__ import annotations

import gc
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from perturank import machine
from perturank.__about__ import __version__
from perturank.cli import Commands, run
from perturank.cli.console import progress, table, to_people, to_programs
from perturank.errors import BadInput
from perturank.interrupts import interruptible

if TYPE_CHECKING:
    from benchmarks.comparison import Comparison
    from benchmarks.report import BenchmarkReport
    from benchmarks.section import SectionResult

# The modules that load JAX are imported by the commands: the number of threads must be set before.
WIDTH = 100
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
app = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.command("speed")
def speed(
    sections: Annotated[
        list[str] | None, typer.Argument(help="rankers, fit, growth, latency, dimension, memory, reading; or all.")
    ] = None,
    rankers: Annotated[str, typer.Option(help="Rankers of the first section, with commas between; or all.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes only.")] = False,
    full: Annotated[bool, typer.Option("--full", help="More sizes, and longer.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Seconds for each number.", min=0.01)] = None,
    threads: Annotated[int, typer.Option(help="Threads, as of one run.", min=1)] = 1,
    compare: Annotated[Path | None, typer.Option(help="An earlier report: mark what got slower.")] = None,
    fail_if_slower: Annotated[bool, typer.Option("--fail-if-slower", help="Then exit with code 1.")] = False,
    figure: Annotated[Path | None, typer.Option(help="File for a figure of the cost per round (PNG).")] = None,
    out: Annotated[Path | None, typer.Option(help="File for the report as JSON, beside the table.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed and memory, each number beside the machine's own speed in the same run."""
    machine.pin_threads(threads)
    from benchmarks import comparison, growth, suite
    from benchmarks.figure import draw_curves
    from benchmarks.report import read_report, write_report
    from benchmarks.section import FULL, QUICK, STANDARD

    if quick and full:
        raise BadInput("--quick and --full exclude each other", "give one of them, or neither")
    named = tuple(name.strip() for name in rankers.split(",") if name.strip())
    effort = QUICK if quick else FULL if full else STANDARD
    effort = replace(effort, rankers=named, seconds=seconds or effort.seconds)
    old = None if compare is None else read_report(compare)
    for path in (figure, out):
        _check_folder(path)
    if figure is not None and sections and "growth" not in sections:
        raise BadInput("--figure draws the section growth", "add growth to the sections")
    chosen = suite.sections_named(sections or [])
    with _progress("calibration", suite.n_steps(chosen, effort)) as advance:
        report = suite.measure(chosen, effort, advance)
    result = report.as_dict()
    changes = None if old is None else comparison.compare(old, result)
    if changes is not None:
        result["comparison"] = changes.as_list()
    if out is not None:
        write_report(result, out)
    if as_json:
        to_programs(result)
    else:
        _print(report, changes)
    if figure is not None:
        draw_curves(growth.curves(report.parts["growth"].rows), figure)
        typer.echo(f"figure: {figure}", err=as_json)
    if fail_if_slower and changes is not None and changes.of("slower"):
        raise typer.Exit(1)


@app.command("service")
def service(
    rate: Annotated[float, typer.Option(help="Pairs of list and feedback a second.", min=1)] = 300.0,
    seconds: Annotated[float, typer.Option(help="Seconds of each part.", min=0.01)] = 15.0,
    soak: Annotated[int, typer.Option(help="Minutes at that rate, at the end.", min=0)] = 0,
    log: Annotated[str | None, typer.Option(help="The service's log; none: a new SQLite file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Start a ranking service, load it, and print what it withstands."""
    from benchmarks.service import Scale, measure_service

    scale = Scale(rate=rate, soak_minutes=soak, log=log, seconds=seconds)
    with _progress("the service starts", scale.n_steps) as advance:
        part = measure_service(scale, advance)
    _print_section(part, as_json)


@app.command("models")
def models(
    n: Annotated[int, typer.Option("--models", help="Models in one service.", min=1)] = 1000,
    active: Annotated[int, typer.Option(help="Models with traffic.", min=1)] = 50,
    lists: Annotated[int, typer.Option(help="Lists of each of them, with a click each.", min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """Start a service with many small models, let some of them learn, restart it, and print what it takes."""
    from benchmarks.many_models import ManyModels, measure_models

    scale = ManyModels(n, min(active, n), lists)
    with _progress("the service starts", scale.n_steps) as advance:
        part = measure_models(scale, advance)
    _print_section(part, as_json)


@app.command("import")
def imports(
    lists: Annotated[int, typer.Option(help="Past lists.", min=2000)] = 50_000,
    log: Annotated[str | None, typer.Option(help="A log without a model; none: a new SQLite file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Import past lists into a log, learn them, and print how fast both are."""
    machine.pin_threads(1)
    from benchmarks.importing import Histories, measure_imports

    gc.collect()
    gc.freeze()  # as `perturank import` does
    scale = Histories(lists, log=log)
    with _progress("lists are written to a file", scale.n_steps) as advance:
        part = measure_imports(scale, advance)
    _print_section(part, as_json)


def _print_section(part: SectionResult, as_json: bool) -> None:
    if as_json:
        to_programs({name: row.values for name, row in part.rows.items()})
        return
    listed = table(part.title, "", *(column.heading for column in part.columns), numbers=True)
    for name, row in part.rows.items():
        listed.add_row(name, *(column.text(row.values.get(column.key)) for column in part.columns))
    to_people(listed, WIDTH)


@app.command("shop")
def shop(
    searches: Annotated[int, typer.Option(help="Searches of each run.", min=1)] = 10_000,
    seeds: Annotated[int, typer.Option(help="Shops with their customers; every arm meets the same.", min=1)] = 5,
    arms: Annotated[str, typer.Option(help="Arms, with commas between; none: all.")] = "",
    kept: Annotated[
        Path | None, typer.Option("--json", help="File of finished runs as JSON; what it holds is not run again.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for a figure of the curves, shop.png.")] = None,
) -> None:
    """Let the customers of made-up shops teach a service, and print how good its lists become."""
    from benchmarks.shop import FIRST_SEED, Shop, run_trial
    from benchmarks.shop_arms import arm_of, arms_named
    from benchmarks.shop_report import draw_curves, read_runs, tables, write_runs

    chosen = arms_named(arms)
    _check_folder(kept)
    runs = [] if kept is None else read_runs(kept, searches)
    wanted = [(seed, arm) for seed in range(FIRST_SEED, FIRST_SEED + seeds) for arm in chosen]
    missing = [each for each in wanted if each not in {(run.seed, run.arm) for run in runs}]
    try:
        with _progress("the shop opens", len(missing) * searches) as advance:
            for seed, arm in missing:
                what, made = f"{arm}, seed {seed}", Shop.of(seed)
                with arm_of(arm, made, partial(advance, f"{what}: waits", 0)) as playing:
                    runs.append(run_trial(arm, playing, made, seed, searches, partial(advance, what)))
                if kept is not None:
                    write_runs(runs, kept)
                typer.echo(f"{what}: {runs[-1].seconds:.0f} s", err=True)
    except KeyboardInterrupt:
        if kept is None:
            raise
        typer.echo(f"interrupted; finished runs are in {kept}: the same command goes on", err=True)
        raise typer.Exit(130) from None
    shown = [run for run in runs if (run.seed, run.arm) in wanted]
    for listed in tables(shown):
        to_people(listed, WIDTH)
        typer.echo()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        draw_curves(shown, out / "shop.png")
        typer.echo(f"figure: {out / 'shop.png'}")


@app.command("attack")
def attack(
    searches: Annotated[int, typer.Option(help="Searches of customers in each run.", min=1)] = 1000,
    seeds: Annotated[int, typer.Option(help="Shops with their customers.", min=1)] = 3,
    shares: Annotated[str, typer.Option(help="Hostile clicks among all in percent, with commas between.")] = "1,5,20",
    only: Annotated[str, typer.Option(help="Only attacks whose name begins so.")] = "",
    kept: Annotated[
        Path | None, typer.Option("--json", help="File of finished runs as JSON lines; these are not run again.")
    ] = None,
) -> None:
    """Let hostile clicks promote a product in made-up shops, and print what each limit on a source costs and saves."""
    from benchmarks.attack import cases, listed, outcomes, read_outcomes
    from benchmarks.shop import FIRST_SEED

    try:
        chosen = [
            case for case in cases([float(each) / 100 for each in shares.split(",")]) if case.name.startswith(only)
        ]
    except ValueError:
        raise BadInput(f"--shares is {shares!r}", "give percentages, such as 1,5,20") from None
    _check_folder(kept)
    done = {} if kept is None else {(run.case, run.seed, run.searches): run for run in read_outcomes(kept)}
    wanted = [(case, seed, searches) for case in chosen for seed in range(FIRST_SEED, FIRST_SEED + seeds)]
    missing = [each for each in wanted if each not in done]
    with _progress("the shop opens", len(missing) * searches) as advance:
        for run in outcomes(missing, advance):
            done[run.case, run.seed, run.searches] = run
            if kept is not None:
                with kept.open("a") as file:
                    file.write(json.dumps(run.as_dict()) + "\n")
            typer.echo(f"{run.name}: {run.seconds:.0f} s", err=True)
    to_people(listed([done[each] for each in wanted]), WIDTH)


def _check_folder(path: Path | None) -> None:
    """Refuse a file that cannot be written before the work, not after it."""
    if path is not None and not path.absolute().parent.is_dir():
        raise BadInput(f"there is no folder {path.absolute().parent}", f"make it, or name another file than {path}")


@contextmanager
def _progress(first: str, n_steps: int) -> Iterator[Callable[..., None]]:
    """Yield a function that moves the bar on by a step, or by so many, and stops at Ctrl-C or SIGTERM."""
    with progress() as bar, interruptible() as check:
        task = bar.add_task(first, total=n_steps)
        # A process that is told to end by default ends at once, and leaves its service behind.
        before = signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))

        def advance(what: str, steps: int = 1) -> None:
            bar.update(task, advance=steps, description=what)
            check()

        try:
            yield advance
        finally:
            signal.signal(signal.SIGTERM, before)


def _print(report: BenchmarkReport, comparison: Comparison | None) -> None:
    peak, threads = report.calibration["gflops"], report.calibration["threads"]
    title = (
        f"perturank {__version__}: {report.machine['processor']}, {threads} thread{'s' * (threads > 1)}, "
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


def _whole_table(title: str, parts: Mapping[str, SectionResult]) -> Table:
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
            listed.add_row(row_name, *(column.text(row.values.get(column.key)) for column in part.columns))
    return listed


def _changes_table(comparison: Comparison) -> Table:
    """Return what got slower or faster, and what only one of the two reports has."""
    from benchmarks.comparison import SLOWER

    slower, faster = comparison.of("slower"), comparison.of("faster")
    title = (
        f"{comparison.n_compared} numbers compared, calibration taken out: "
        f"{len(slower)} slower, {len(faster)} faster by more than {SLOWER}×"
    )
    listed = table(title, "number", "before", "now", "times as slow", "", numbers=True)
    for change in (*slower, *faster, *comparison.of("missing", "new")):
        mark = f"[bold red]{change.verdict}[/bold red]" if change.verdict == "slower" else change.verdict
        numbers = ("–" if value is None else f"{value:,.3g}" for value in (change.before, change.now, change.ratio))
        listed.add_row(f"{change.section}: {change.row}, {change.column}", *numbers, mark)
    return listed


def main() -> None:
    """Run the command line of the benchmarks."""
    run(app, "python -m benchmarks")


if __name__ == "__main__":
    main()
