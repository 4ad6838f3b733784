"""`perturank simulate`: one ranker, one kind of user, one or more seeds."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from perturank import machine
from perturank.__about__ import __version__
from perturank.cli.interrupting import interruptible
from perturank.cli.later import catalogue, clicks, client, datasets, driving, metrics, significance, simulation
from perturank.cli.printing import progress, table, to_people, to_programs
from perturank.cli.workers import side_by_side
from perturank.errors import BadInput

Result = dict[str, Any]
# Measures of a checkpoint: what they are called, and their decimals.
SCORES = {"ndcg@{top}": ("NDCG@{top}", 3), "cumulative_ndcg": ("cumulative", 1)}
OTHERS = {
    "regret": ("regret", 0),
    "uncertain": ("uncertain", 3),
    "certain_wrong": ("wrong", 3),
    "seconds": ("seconds", 1),
}
LEGEND = "worst: worst run; 10 %: tenth percentile; wrong: certain orders against grades"


@dataclass(frozen=True)
class Request:
    """One run in words: what a worker process needs in order to make it."""

    ranker: str
    data: str
    fold: int
    user: str
    stop: str
    rounds: int
    seed: int
    changes: dict[str, str]
    evaluate_at: tuple[int, ...]
    top: int
    checkpoint: Path | None
    batch: int = 1


def simulate(
    ranker: Annotated[str, typer.Option(help="A name of `perturank rankers`.")],
    data: Annotated[str, typer.Option(help="A name of `perturank datasets`, a file or a folder.")] = "synthetic",
    fold: Annotated[int, typer.Option(help="Fold of the data.", min=1)] = 1,
    user: Annotated[str, typer.Option("--clicks", help="A name of `perturank users`, or a table.")] = "perfect",
    stop: Annotated[str, typer.Option(help="When users may stop: at documents examined or clicked.")] = "examined",
    rounds: Annotated[int, typer.Option(help="Rounds of rank, click and learn.", min=1)] = 5000,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.", min=0)] = 1,
    seeds: Annotated[int, typer.Option(help="Runs with seeds SEED, SEED + 1, …", min=1)] = 1,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A hyper-parameter, as name=value.")] = None,
    evaluate_at: Annotated[str, typer.Option(help="Rounds to evaluate after, as 100,500,1000.")] = "",
    top: Annotated[int, typer.Option(help="Places of the shown list.", min=1)] = 10,
    batch: Annotated[int, typer.Option(help="Rounds that are learned together, with one fit.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Threads of one run; part of its identity.", min=1)] = 1,
    jobs: Annotated[int, typer.Option(help="Seeds that run at the same time.", min=1)] = 1,
    checkpoint: Annotated[Path | None, typer.Option(help="File to go on from after an interruption.")] = None,
    through: Annotated[str | None, typer.Option(help="Address of a running service that ranks and learns.")] = None,
    model: Annotated[str, typer.Option(help="With --through: name of the model to make there.")] = "simulated",
    asynchronous: Annotated[bool, typer.Option("--asynchronous", help="With --through: never wait for it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per seed.")] = False,
) -> None:
    """Let a ranker learn from simulated clicks, and measure it.

    [bold]Examples[/bold]

    perturank simulate --ranker p2headrank --rounds 1000

    perturank simulate --ranker pdgd-linear --data ~/data/mq2008 --fold 2 --clicks navigational --seeds 10 --jobs 2

    perturank simulate --ranker p2linrank --set noise_std=0.1 --set l2=30 --evaluate-at 100,1000,5000 --json

    perturank simulate --ranker p2headrank --rounds 500 --batch 10 --through http://127.0.0.1:8765
    """
    machine.pin_threads(threads)
    settings, at = named_values(changes or []), _rounds(evaluate_at, rounds, batch)
    asked = Request(ranker, data, fold, user, stop, rounds, seed, settings, at, top, checkpoint, batch)
    requests = [asked] if seeds == 1 else [_with_seed(asked, each) for each in range(seed, seed + seeds)]
    results: list[Result] = []
    way = None if through is None else Way(through, model, not asynchronous)
    if way is not None and (checkpoint is not None or jobs > 1):
        raise BadInput("--through goes without --checkpoint and --jobs", "the service itself remembers")
    try:
        with contextlib.closing(_results(requests, min(jobs, seeds), way)) as finished:
            for result in finished:
                results.append(result)
                if as_json:
                    to_programs(result)
    except KeyboardInterrupt:
        typer.echo(f"interrupted after {len(results)} of {seeds} runs; {_how_to_go_on(checkpoint)}", err=True)
        raise typer.Exit(130) from None
    if not as_json:
        to_people(_results_tables(results, top))


@dataclass(frozen=True)
class Way:
    """Through which service, and whether in step with its learning. Its key is in PERTURANK_KEY."""

    url: str
    model: str
    in_step: bool

    def result_of(self, request: Request, on_progress: Callable[[int], None]) -> Result:
        """Return one run through the service, as plain values; each seed has a model of its own."""
        plan = plan_of(request)
        with client.Client(self.url, os.environ.get("PERTURANK_KEY")) as served:
            model = f"{self.model}-{request.seed}"
            driven = driving.drive(plan, served, model, in_step=self.in_step, on_progress=on_progress)
        return _about(request, plan) | {"seed": request.seed, "through": self.url} | driven.as_dict(request.top)


def plan_of(request: Request) -> simulation.Plan:
    """Return the plan that the words mean; every mistake in them is found here, before the first round."""
    settings = catalogue.published(request.ranker).settings.parsed(request.changes)
    fold = datasets.load(request.data, fold=request.fold)
    user = clicks.user(request.user, fold.n_grades, stop=request.stop)
    return simulation.Plan(
        ranker=request.ranker,
        settings=settings,
        user=user,
        fold=fold,
        rounds=request.rounds,
        seed=request.seed,
        evaluate_at=request.evaluate_at,
        top=request.top,
        batch=request.batch,
    )


def result_of(request: Request, on_progress: Callable[[int], None] | None = None) -> Result:
    """Return one run and everything that decided it, as plain values."""
    plan = plan_of(request)
    run = simulation.simulate(plan, on_progress=on_progress, checkpoint=request.checkpoint)
    return _about(request, plan) | run.as_dict(request.top)


def _about(request: Request, plan: simulation.Plan) -> Result:
    return {
        "ranker": request.ranker,
        "data": request.data,
        "fold": request.fold,
        "clicks": request.user,
        "stop": request.stop,
        "settings": plan.settings.as_dict(),
        "batch": request.batch,
        "threads": machine.n_threads(),
        "conventions": metrics.CONVENTIONS,
        "version": __version__,
    }


def _results(requests: Sequence[Request], jobs: int, way: Way | None = None) -> Generator[Result, None, None]:
    """Yield the results in the order of their seeds, with progress on stderr."""
    with progress() as bar:
        task = bar.add_task(requests[0].ranker, total=sum(request.rounds for request in requests))
        if jobs == 1:
            with interruptible() as check:

                def advance(n: int) -> None:
                    bar.advance(task, n)
                    check()

                for request in requests:
                    yield result_of(request, advance) if way is None else way.result_of(request, advance)
        else:
            for result in side_by_side(result_of, requests, jobs):
                bar.advance(task, requests[0].rounds)
                yield result


def _with_seed(request: Request, seed: int) -> Request:
    """Return the request for another seed, with a checkpoint file of its own."""
    file = request.checkpoint
    return replace(request, seed=seed, checkpoint=file and file.with_stem(f"{file.stem}-{seed}"))


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
    try:
        given = {int(part) for part in text.split(",")}
    except ValueError:
        raise BadInput(f"--evaluate-at {text}", "give rounds such as 100,500,1000") from None
    return tuple(sorted(given))


def _how_to_go_on(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return "to be able to go on, start with --checkpoint FILE"
    return f"go on with the same command: {checkpoint} knows how far it came"


def _results_tables(results: Sequence[Result], top: int) -> Group:
    """Return a row per checkpoint; of several seeds mean, worst and tenth percentile, and how many collapsed."""
    first = results[0]
    is_one = len(results) == 1
    runs = f"seed {first['seed']}" if is_one else f"mean of {len(results)} seeds ± standard error"
    title = Text(f"{first['ranker']} on {first['data']}, {first['clicks']} users, {runs}", style="bold")
    speed = f"{statistics.mean(result['rounds_per_second'] for result in results):,.0f} rounds/s"
    rounds = list(zip(*(result["checkpoints"] for result in results), strict=True))
    tables = (
        [_means(rounds, top, SCORES | OTHERS)] if is_one else [_spreads(rounds, top), "", _means(rounds, top, OTHERS)]
    )
    return Group(
        title, *tables, "", *([] if is_one else [Text(LEGEND, style="dim")]), speed, _below_random(results, top)
    )


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
