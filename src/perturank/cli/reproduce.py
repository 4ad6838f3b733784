"""`perturank reproduce` and `perturank report`: the paper's experiments, from runs to pictures."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, TaskID

from perturank import machine
from perturank.cli.console import progress, table, to_people, to_programs
from perturank.cli.simulate import given_rounds
from perturank.errors import BadInput
from perturank.interrupts import INTERRUPTED, interruptible

if TYPE_CHECKING:
    from perturank.experiments.planning import RunPlan
    from perturank.reproduction import Estimates, Study
    from perturank.results.job import Job
    from perturank.results.outcome import RunOutcome
    from perturank.results.store import Store

MANY_CORES = (2, 16, 64)


def reproduce(
    data: Annotated[list[str] | None, typer.Option(help="A data set; repeat it for several.")] = None,
    scale: Annotated[str, typer.Option(help="How much: demo, quick or paper.")] = "quick",
    out: Annotated[Path, typer.Option(help="Folder of results: runs, figures and report.html.")] = Path("results"),
    only: Annotated[
        list[str] | None, typer.Option("--experiment", help="An experiment; repeat it for several.")
    ] = None,
    rankers: Annotated[
        str, typer.Option(help="Rankers to compare in place of the paper's arms, as p2headrank,module:NAME.")
    ] = "",
    folds: Annotated[int | None, typer.Option(help="Folds of each data set, from the first.", min=1)] = None,
    users: Annotated[str | None, typer.Option(help="Users, as perfect,informational.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Final runs of each arm on each fold.", min=1)] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of each run, T.", min=1)] = None,
    evaluate_at: Annotated[str, typer.Option(help="Rounds to evaluate after, as 100,500,1000.")] = "",
    grid: Annotated[str | None, typer.Option(help="Hyper-parameters: none, paper (its grids), or wide too.")] = None,
    tuning_seeds: Annotated[int | None, typer.Option(help="Runs of each setting of a grid.", min=1)] = None,
    staged: Annotated[bool, typer.Option(help="Search on few rounds first; the best third goes on.")] = False,
    top: Annotated[int | None, typer.Option(help="Places of the shown list.", min=1)] = None,
    jobs: Annotated[int, typer.Option(help="Runs at the same time, one core each.", min=1)] = os.cpu_count() or 1,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster that makes the runs.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and how long; run nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the paper's experiments and draw them: figures, numbers and a report.

    What is finished is kept; after an interruption the same command goes on.

    [bold]Examples[/bold]

    perturank reproduce --scale demo

    perturank reproduce --data ~/data/MSLR-WEB10K --data ~/data/Yahoo --scale paper --dry-run

    perturank reproduce --data ~/data/MQ2008 --experiment linear-rankers --seeds 5 --rounds 2000

    perturank reproduce --rankers p2headrank,my_module:tally --rounds 1000 --evaluate-at 100,1000

    perturank reproduce --data ~/data/MSLR-WEB10K --scale paper --staged --ray auto
    """
    machine.pin_threads(1)  # the other cores run other runs
    if scale == "demo":
        machine.compile_lightly()
    from perturank import catalogue, experiments, reproduction
    from perturank.experiments.protocol import protocol

    # Unknown names are refused before any data are read.
    experiments.chosen(tuple(only or ()))
    for name in _words(rankers):
        catalogue.load_published(name)
    options: dict[str, Any] = {
        "data": tuple(data or ()),
        "experiments": tuple(only or ()),
        "rankers": _words(rankers),
        "users": _words(users),
        "evaluations": given_rounds(evaluate_at) if evaluate_at else (),
        "folds": folds,
        "seeds": seeds,
        "rounds": rounds,
        "grid": grid,
        "tuning_seeds": tuning_seeds,
        "top": top,
    }
    given = {name: value for name, value in options.items() if value not in (None, ())}
    study = reproduction.Study.of(protocol(scale, staged=staged, **given))
    if dry_run:
        _say_estimates(reproduction.estimate(study, _done(out)), study, jobs, as_json)
        return
    _say_findings(study, _run_missing(study, out, jobs, ray), out, as_json)


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


def _run_missing(study: Study, out: Path, jobs: int, ray: str | None) -> dict[str, RunOutcome]:
    """Run what is missing in the folder, on this machine or on a Ray cluster, and return all outcomes."""
    from perturank import reproduction

    kept = study.store(out)
    with _watched(kept) as watch:

        def run_jobs(missing: Sequence[Job], into: Store) -> None:
            if ray is None:
                from perturank.sweeps import local

                local.run_jobs(missing, into, jobs, watch.rounds, watch.finished)
            else:
                from perturank.sweeps import cluster

                cluster.run_jobs(missing, into, ray, watch.finished)

        try:
            return reproduction.run_missing(study, kept, run_jobs, watch.plan)
        except KeyboardInterrupt:
            n = len(kept.keys())
            typer.echo(f"interrupted; {n} finished runs are kept in {out}: the same command goes on", err=True)
            raise typer.Exit(INTERRUPTED) from None


def redraw(
    folders: Annotated[list[Path], typer.Argument(help="Folders of results; several are taken together.")],
    out: Annotated[Path | None, typer.Option(help="Folder for figures and report.html; the first one's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw figures and report.html again from stored results.

    The first folder says what was asked for; the runs of all are used.

    [bold]Examples[/bold]

    perturank report results

    perturank report results-of-machine-1 results-of-machine-2 --out together
    """
    from perturank.reproduction import Study
    from perturank.results.store import Store

    stores = [Store.open(folder) for folder in folders]
    done: dict[str, RunOutcome] = {}
    for each in stores:
        for key, outcome in each.outcomes().items():
            if key in done and done[key].bits() != outcome.bits():
                raise BadInput(f"run {key} differs between the folders", "they come from different kinds of machines")
            done[key] = outcome
    place = out or folders[0]
    place.mkdir(parents=True, exist_ok=True)
    _say_findings(Study.by(stores[0]), done, place, as_json)


def merge(
    folders: Annotated[list[Path], typer.Argument(help="Folders of results.")],
    into: Annotated[Path, typer.Option("--out", help="Folder that gets all of their runs.")],
) -> None:
    """Put the runs of several folders of results into one.

    [bold]Examples[/bold]

    perturank merge machine-1 machine-2 --out together
    """
    from perturank.reproduction import Study
    from perturank.results.store import Store, digest

    stores = [Store.open(folder) for folder in folders]
    study = Study.by(stores[0])
    target = study.store(into)
    n = target.take(stores)
    typer.echo(f"{n} runs taken, {len(target.keys())} in {into}, digest {digest(target.outcomes())}")


class ProgressBars:
    """Progress: a bar for everything, in seconds of work, and one for each experiment, in runs."""

    def __init__(self, bar: Progress, kept: Store, check: Callable[[], None]) -> None:
        self.bar, self.kept, self.check = bar, kept, check
        self.whole: TaskID | None = None
        self.tasks: dict[str, TaskID] = {}
        self.weights: dict[str, float] = {}
        self.belongs: dict[str, set[str]] = {}
        self.told: dict[str, int] = {}

    def plan(self, plan: RunPlan) -> None:
        """Take in a plan that is known better."""
        from perturank import reproduction

        done = self.kept.keys()
        missing = [job for key, job in plan.jobs.items() if key not in done]
        self.weights |= reproduction.weights(missing, {}) if missing else {}
        names = dict.fromkeys(run.condition.experiment for run in plan.runs)
        self.belongs = {}
        for run in plan.runs:
            self.belongs.setdefault(run.job.key, set()).add(run.condition.experiment)
        if self.whole is None:
            self.whole = self.bar.add_task("all runs", total=0)
            self.tasks = {name: self.bar.add_task(name) for name in names}
        self.bar.update(self.whole, total=sum(self.weights.values()))
        for name in names:
            keys = {key for key, to in self.belongs.items() if name in to}
            self.bar.update(self.tasks[name], total=len(keys), completed=len(keys & done))

    def rounds(self, job: Job, n: int) -> None:
        """Take in some rounds of a run; raise KeyboardInterrupt if Ctrl-C was pressed."""
        self.check()
        self.told[job.key] = self.told.get(job.key, 0) + n
        if self.whole is not None:
            self.bar.advance(self.whole, self.weights[job.key] * n / job.rounds)

    def finished(self, job: Job) -> None:
        """Take in a finished run; one that went on from an earlier start told fewer rounds than it has."""
        left = job.rounds - self.told.get(job.key, 0)
        self.rounds(job, left)
        for name in self.belongs[job.key]:
            self.bar.advance(self.tasks[name])


@contextmanager
def _watched(kept: Store) -> Iterator[ProgressBars]:
    with progress(counts=False) as bar, interruptible(at_once=True) as check:
        yield ProgressBars(bar, kept, check)


def _done(out: Path) -> dict[str, RunOutcome]:
    from perturank.results.store import Store

    return Store.open(out).outcomes() if (out / "manifest.json").exists() else {}


def _say_findings(study: Study, done: dict[str, RunOutcome], out: Path, as_json: bool) -> None:
    from perturank import report, reproduction
    from perturank.results.store import digest

    found = study.findings(done)
    path = report.write_report(out, found, reproduction.facts(study, done))
    bits = digest(done)
    if as_json:
        to_programs(
            {"runs": len(done), "digest": bits, "report": str(path), "experiments": reproduction.numbers(found)}
        )
        return
    to_people(report.table(found))
    typer.echo(f"report: {path}\nfigures: {out / 'figures'}\nruns: {len(done)}, digest {bits}")


def _say_estimates(estimates: Estimates, study: Study, jobs: int, as_json: bool) -> None:
    if as_json:
        rows = [vars(row) for row in estimates.rows]
        whole = {"seconds_of_one_core": estimates.seconds, "compiling": estimates.compiling, "jobs": jobs}
        to_programs({"rows": rows, **whole, "seconds_here": estimates.seconds / jobs, "gflops": estimates.gflops})
        return
    title = f"{study.protocol.scale} scale on {', '.join(study.sources)}: what is still to be run"
    listed = table(title, "experiment", "for", "runs", "done", "core time", "share", numbers=True)
    for row in sorted(estimates.rows, key=lambda row: -row.seconds):
        share = row.seconds / max(estimates.seconds, 1e-9)
        listed.add_row(
            row.experiment, row.role, f"{row.n_runs:,}", f"{row.n_done:,}", duration(row.seconds), f"{share:.0%}"
        )
    n, n_done = sum(row.n_runs for row in estimates.rows), sum(row.n_done for row in estimates.rows)
    listed.add_row("compiling", "", "", "", duration(estimates.compiling), "")
    listed.add_row("all", "", f"{n:,}", f"{n_done:,}", duration(estimates.seconds), "")
    to_people(listed)
    cores = dict.fromkeys((jobs, *MANY_CORES))
    said = "; ".join(f"{c} at a time: {duration(estimates.seconds / c)}" for c in cores)
    typer.echo("a run that several experiments share is counted once, for the first of them")
    typer.echo(f"here, {said} (estimated; the matrix product does {estimates.gflops:.0f} GFLOP/s)")


def duration(seconds: float) -> str:
    """Return a length of time as people say it.

    >>> duration(42), duration(7260), duration(200000)
    ('42 s', '2.0 h', '2.3 days')
    """
    for limit, unit, size in ((90, "s", 1), (5400, "min", 60), (129600, "h", 3600), (math.inf, "days", 86400)):
        if seconds < limit:
            digits = 0 if size == 1 or seconds / size >= 10 else 1
            return f"{seconds / size:.{digits}f} {unit}"
    return "never"
