"""`perturank simulate`: one ranker, one kind of user, one or more seeds."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import statistics
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from perturank import machine
from perturank.__about__ import __version__
from perturank.cli.console import progress, table, to_people, to_programs
from perturank.errors import BadInput
from perturank.interrupts import INTERRUPTED, interruptible

if TYPE_CHECKING:
    from perturank.results.job import Job
    from perturank.simulation import Plan

Result = dict[str, Any]
# Measures of a checkpoint: what they are called, and their decimals.
SCORES = {"ndcg@{top}": ("NDCG@{top}", 3), "cumulative_ndcg": ("cumulative", 1)}
OTHERS = {
    "regret": ("regret", 0),
    "uncertain": ("uncertain", 3),
    "certain_wrong": ("wrong", 3),
    "seconds": ("seconds", 1),
}
LEGEND = (
    "cumulative and regret: sums over all rounds so far, of NDCG and of pairs shown in the wrong order; "
    "uncertain: share of pairs without a certain order; wrong: share of certain orders that contradict the grades"
)
LEGEND_OF_SEEDS = "worst: worst run; 10 %: tenth percentile"


def simulate(
    ranker: Annotated[str, typer.Option(help="A name of `perturank rankers`, or module:NAME.")],
    data: Annotated[str, typer.Option(help="A name of `perturank datasets`, a file or a folder.")] = "synthetic",
    fold: Annotated[int, typer.Option(help="Fold of the data.", min=1)] = 1,
    user: Annotated[str, typer.Option("--clicks", help="A name of `perturank users`, or a table.")] = "perfect",
    stop: Annotated[str, typer.Option(help="When users may stop: at documents examined or clicked.")] = "examined",
    rounds: Annotated[int, typer.Option(help="Rounds of rank, click and learn.", min=1)] = 5000,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.", min=0)] = 1,
    seeds: Annotated[int, typer.Option(help="Runs with seeds SEED, SEED + 1, …", min=1)] = 1,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A hyper-parameter, as name=value.")] = None,
    scorer: Annotated[
        str | None, typer.Option(help="A scorer of your own for a neural ranker, as module:NAME.")
    ] = None,
    evaluate_at: Annotated[str, typer.Option(help="Rounds to evaluate after, as 100,500,1000.")] = "",
    top: Annotated[int, typer.Option(help="Places of the shown list.", min=1)] = 10,
    batch: Annotated[int, typer.Option(help="Rounds that are learned together, with one fit.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Threads of one run; part of its identity.", min=1)] = 1,
    jobs: Annotated[int, typer.Option(help="Seeds that run at the same time.", min=1)] = 1,
    checkpoint: Annotated[Path | None, typer.Option(help="File to go on from after an interruption.")] = None,
    through: Annotated[str | None, typer.Option(help="Address of a running service that ranks and learns.")] = None,
    model: Annotated[str, typer.Option(help="With --through: name of the model to make there.")] = "simulated",
    asynchronous: Annotated[bool, typer.Option("--asynchronous", help="With --through: never wait for it.")] = False,
    eager: Annotated[bool, typer.Option("--eager", help="Compile nothing, so that breakpoints work; slow.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per seed.")] = False,
) -> None:
    """Let a ranker learn from simulated clicks, and measure it.

    [bold]Examples[/bold]

    perturank simulate --ranker p2headrank --rounds 1000

    perturank simulate --ranker pdgd-linear --data ~/data/mq2008 --fold 2 --clicks navigational --seeds 10 --jobs 2

    perturank simulate --ranker p2linrank --set noise_std=0.1 --set l2=30 --evaluate-at 100,1000,5000 --json

    perturank simulate --ranker p2headrank --rounds 500 --batch 10 --through http://127.0.0.1:8765

    perturank simulate --ranker pdgd-neural --scorer my_module:Attention

    perturank simulate --ranker my_module:tally --rounds 5 --eager
    """
    machine.pin_threads(threads)
    from perturank import catalogue
    from perturank.results.job import Job
    from perturank.results.job import as_json as settings_json

    settings = catalogue.load_published(ranker).settings.parsed(named_values(changes or []))
    if scorer is not None:
        if "scorer" not in settings.as_dict():
            able = [name for name, each in catalogue.rankers().items() if "scorer" in each.settings.as_dict()]
            raise BadInput(f"{ranker} takes no scorer", f"use {', '.join(able)}")
        settings = settings.changed(scorer=scorer)
    job = Job(
        ranker=ranker,
        settings=settings_json(settings),
        data=data,
        content="",
        fold=fold,
        user=user,
        rounds=rounds,
        seed=seed,
        evaluate_at=_rounds(evaluate_at, rounds, batch),
        stop=stop,
        top=top,
        threads=threads,
        batch=batch,
    )
    runs = [(replace(job, seed=seed + i), _file_of(checkpoint, seed + i, seeds)) for i in range(seeds)]
    results: list[Result] = []
    way = None if through is None else Way(through, model, not asynchronous)
    if way is not None and (checkpoint is not None or jobs > 1):
        raise BadInput("--through goes without --checkpoint and --jobs", "the service itself remembers")
    if eager and (way is not None or checkpoint is not None or jobs > 1):
        raise BadInput(
            "--eager goes without --through, --checkpoint and --jobs", "it runs a few rounds, in this process"
        )
    try:
        results_of = _eager_results(runs) if eager else _results(runs, min(jobs, seeds), way)
        with contextlib.closing(results_of) as finished:
            for result in finished:
                results.append(result)
                if as_json:
                    to_programs(result)
    except KeyboardInterrupt:
        typer.echo(f"interrupted after {len(results)} of {seeds} runs; {_how_to_go_on(checkpoint)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if not as_json:
        to_people(results_tables(results, top))


@dataclass(frozen=True)
class Way:
    """Through which service, and whether in step with its learning. Its key is in PERTURANK_KEY."""

    url: str
    model: str
    in_step: bool

    def result_of(self, job: Job, on_progress: Callable[[int], None]) -> Result:
        """Return one run through the service, as plain values; each seed has a model of its own."""
        from perturank import client
        from perturank.remote_simulation import simulate_through

        plan = job.plan()
        with client.Client(self.url, os.environ.get("PERTURANK_KEY")) as served:
            model = f"{self.model}-{job.seed}"
            run = simulate_through(plan, served, model, in_step=self.in_step, on_progress=on_progress)
        return _about(job, plan) | {"seed": job.seed, "through": self.url} | run.as_dict(job.top)


def result_of(job: Job, checkpoint: Path | None, on_progress: Callable[[int], None] | None = None) -> Result:
    """Return one run and everything that decided it, as plain values."""
    from perturank import simulation

    plan = job.plan()
    run = simulation.simulate(plan, on_progress=on_progress, checkpoint=checkpoint)
    return _about(job, plan) | run.as_dict(job.top)


def _about(job: Job, plan: Plan) -> Result:
    from perturank import metrics

    return {
        "ranker": job.ranker,
        "data": job.data,
        "fold": job.fold,
        "clicks": job.user,
        "stop": job.stop,
        "settings": plan.settings.as_dict(),
        "batch": job.batch,
        "threads": job.threads,
        "conventions": metrics.CONVENTIONS,
        "version": __version__,
    }


def _eager_results(runs: Sequence[tuple[Job, Path | None]]) -> Generator[Result, None, None]:
    """Yield the results of runs operation by operation; no progress is drawn over a debugger's prompt."""
    import jax

    for job, _ in runs:
        with jax.disable_jit():
            result = result_of(job, None)
        yield result | {"eager": True}


def _results(
    runs: Sequence[tuple[Job, Path | None]], n_workers: int, way: Way | None = None
) -> Generator[Result, None, None]:
    """Yield the results in the order of their seeds, with progress on stderr."""
    with progress() as bar:
        task = bar.add_task(runs[0][0].ranker, total=sum(job.rounds for job, _ in runs))
        if n_workers == 1:
            with interruptible() as check:

                def advance(n: int) -> None:
                    bar.advance(task, n)
                    check()

                for job, checkpoint in runs:
                    yield result_of(job, checkpoint, advance) if way is None else way.result_of(job, advance)
        else:
            with interruptible(at_once=True) as check:
                for result in _in_processes(runs, n_workers):
                    bar.advance(task, runs[0][0].rounds)
                    check()
                    yield result


def _in_processes(runs: Sequence[tuple[Job, Path | None]], n_workers: int) -> Generator[Result, None, None]:
    """Yield the results in order, each made in a process of its own; the workers end when this does."""
    fresh = multiprocessing.get_context("spawn")  # a fork would inherit JAX's locks but not its threads
    with ProcessPoolExecutor(n_workers, fresh, signal.signal, (signal.SIGINT, signal.SIG_DFL)) as pool:
        try:
            yield from pool.map(result_of, *zip(*runs, strict=True))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _file_of(checkpoint: Path | None, seed: int, seeds: int) -> Path | None:
    """Return the checkpoint file of a seed: its own where there are several."""
    return checkpoint if checkpoint is None or seeds == 1 else checkpoint.with_stem(f"{checkpoint.stem}-{seed}")


def named_values(texts: list[str]) -> dict[str, str]:
    """Return what `--set name=value` said."""
    for text in texts:
        if not text.partition("=")[2]:
            raise BadInput(f"--set {text}", "write it as --set name=value")
    return {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in texts)}


def _rounds(text: str, rounds: int, batch: int = 1) -> tuple[int, ...]:
    """Return the rounds to evaluate after: those given, or 100, 500, 1000, … where a batch ends, and the last.

    >>> _rounds("", 1200), _rounds("500,100", 1200), _rounds("", 1200, batch=40)
    ((100, 500, 1000, 1200), (100, 500), (1000, 1200))
    """
    if not text:
        series = (step * 10**power for power in range(2, 10) for step in (1, 5))
        return tuple(sorted({rounds, *(each for each in series if each < rounds and each % batch == 0)}))
    return given_rounds(text)


def given_rounds(text: str) -> tuple[int, ...]:
    """Return what `--evaluate-at` said."""
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise BadInput(f"--evaluate-at {text}", "give rounds such as 100,500,1000") from None


def _how_to_go_on(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return "to be able to go on, start with --checkpoint FILE"
    return f"go on with the same command: {checkpoint} knows how far it came"


def results_tables(results: Sequence[Result], top: int) -> Group:
    """Return a row per checkpoint; of several seeds mean, worst and tenth percentile, and how many collapsed."""
    first = results[0]
    is_one = len(results) == 1
    runs = f"seed {first['seed']}" if is_one else f"mean of {len(results)} seeds ± standard error"
    title = Text(f"{first['ranker']} on {first['data']}, {first['clicks']} users, {runs}", style="bold")
    speed = f"{statistics.mean(result['rounds_per_second'] for result in results):,.0f} rounds/s"
    rounds = list(zip(*(result["checkpoints"] for result in results), strict=True))
    legend = [LEGEND] if is_one else [LEGEND_OF_SEEDS, LEGEND]
    tables = (
        [_means(rounds, top, SCORES | OTHERS)] if is_one else [_spreads(rounds, top), "", _means(rounds, top, OTHERS)]
    )
    return Group(title, *tables, "", *(Text(line, style="dim") for line in legend), speed, _below_random(results, top))


def _means(rounds: Sequence[Sequence[Result]], top: int, columns: Mapping[str, tuple[str, int]]) -> Table:
    """Return a table of means over seeds; columns are measures with what they are called and their decimals."""
    listed = _table("round", *(name.format(top=top) for name, _ in columns.values()))
    for same in rounds:
        cells = [_mean(_values(same, key.format(top=top)), digits) for key, (_, digits) in columns.items()]
        listed.add_row(f"{same[0]['round']:,}", *cells)
    return listed


def _spreads(rounds: Sequence[Sequence[Result]], top: int) -> Table:
    """Return a table of NDCG and cumulative NDCG: mean, worst run, tenth percentile."""
    names = (each for name, _ in SCORES.values() for each in (name.format(top=top), "worst", "10 %"))
    listed = _table("round", *names)
    for same in rounds:
        cells = [cell for key, (_, n) in SCORES.items() for cell in _spread(same, key.format(top=top), n)]
        listed.add_row(f"{same[0]['round']:,}", *cells)
    return listed


def _table(*columns: str) -> Table:
    listed = table("", *columns, numbers=True)
    listed.title = None
    return listed


def _values(same_round: Sequence[Result], key: str) -> list[float | None]:
    return [checkpoint[key] for checkpoint in same_round]


def _spread(same_round: Sequence[Result], key: str, digits: int) -> tuple[str, str, str]:
    """Return mean ± standard error, the worst run and the tenth percentile of a measure that all runs have."""
    from perturank import significance

    values = [float(checkpoint[key]) for checkpoint in same_round]
    worst, tenth = min(values), significance.tenth_percentile(values)
    return _mean(values, digits), f"{worst:,.{digits}f}", f"{tenth:,.{digits}f}"


def _below_random(results: Sequence[Result], top: int) -> str:
    """Return how many runs ended below a random ranker."""
    n = sum(result["checkpoints"][-1][f"ndcg@{top}"] < result["random_ndcg"] for result in results)
    runs = f"{n} of {len(results)} run{'s' * (len(results) > 1)}"
    return f"{runs} ended below a random ranker (expected NDCG@{top}: {results[0]['random_ndcg']:.3f})"


def _mean(values: Sequence[float | None], digits: int) -> str:
    """Return the mean, and its standard error if there are several values.

    >>> _mean([1.0, 3.0], 1), _mean([0.25], 2), _mean([None], 1)
    ('2.0 ± 1.0', '0.25', '–')
    """
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    mean = f"{statistics.mean(known):,.{digits}f}"
    return mean if len(known) == 1 else f"{mean} ± {statistics.stdev(known) / len(known) ** 0.5:,.{digits}f}"
