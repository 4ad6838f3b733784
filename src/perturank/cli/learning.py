"""`perturank learn` and `perturank replay`: the log into a model, live and again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from perturank import machine
from perturank.cli.later import opening as logs
from perturank.cli.later import replaying, running, snapshots, spec, storage
from perturank.cli.printing import to_programs
from perturank.cli.simulate import named_values
from perturank.errors import BadInput
from perturank.service.retention import Retention

LogUrl = Annotated[str, typer.Option("--log", envvar="PERTURANK_LOG", help="sqlite:///FILE or postgresql://…")]
KeepSpan = Annotated[str | None, typer.Option("--keep", help="Records kept before the newest: 30d, 12h, 90s.")]
KeepImpressions = Annotated[
    int | None, typer.Option("--keep-impressions", help="Learned impressions of each model that are kept.", min=0)
]
DEFAULT_LOG = "sqlite:///perturank.db"
NOTHING_COMPARED = 3  # exit code


def learn(
    log: LogUrl = DEFAULT_LOG,
    once: Annotated[bool, typer.Option("--once", help="Stop when there is nothing more to learn.")] = False,
    threads: Annotated[int, typer.Option(help="Threads; the last bits depend on them.", min=1)] = 1,
    keep: KeepSpan = None,
    keep_impressions: KeepImpressions = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Learn from the clicks in a log as they come, and publish versions. `perturank serve` starts one by itself."""
    machine.pin_threads(threads)
    if not once:
        machine.keep_freed_memory()
    retention = Retention.of(keep, keep_impressions)
    opened = logs.open_log(log)
    try:
        learner = running.learn(opened, once=once, with_parent=with_parent, retention=retention)
    finally:
        opened.close()
    if once and learner is not None:
        for name, state in learner.states.items():
            to_programs({"model": name, "version": state.version, "learned": state.learned})


def replay(
    model: Annotated[str, typer.Option(help="The model to rebuild.")] = "default",
    log: LogUrl = DEFAULT_LOG,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every version; exit code 1: bits differ, 3: no version.")
    ] = False,
    at: Annotated[int | None, typer.Option(help="Stop at this position.", min=1)] = None,
    ranker: Annotated[str | None, typer.Option(help="What would this one have learned?")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A hyper-parameter, as name=value.")] = None,
    seed: Annotated[int, typer.Option(help="Of the other ranker.", min=0)] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the rebuilt ranker to this file.")] = None,
    threads: Annotated[int, typer.Option(help="Threads; the last bits depend on them.", min=1)] = 1,
) -> None:
    """Rebuild a model from the log alone, to the very same bits."""
    machine.pin_threads(threads)
    if verify and (ranker is not None or at is not None):
        raise BadInput("--verify compares with the newest version", "leave out --at and --ranker")
    if changes and ranker is None:
        raise BadInput("--set changes another ranker", "name it with --ranker")
    opened = logs.open_log(log)
    try:
        instead = None if ranker is None else spec.Spec.other(ranker, named_values(changes or []), seed)
        report = replaying.rebuilt(opened, model, at=at, instead=instead)
        whole = report.differs is None and (not verify or replaying.same_as_stored(opened, report))
    finally:
        opened.close()
    state = report.state
    if out is not None:
        storage.save(report.ranker, out)
    said: dict[str, Any] = {
        "model": model,
        "position": state.at,
        "learned": state.learned,
        "version": state.version,
        "digest": snapshots.digest(report.ranker, whole=True).hex(),
    }
    same = {"versions_compared": report.checked, "same_bits": whole if report.checked else None}
    to_programs(said | {"begins": report.begins} | (same if verify else {}))
    if verify and not whole:
        which = "the newest version" if report.differs is None else f"version {report.differs}"
        typer.echo(f"{which} is not what the log makes of the model", err=True)
        raise typer.Exit(1)
    if verify and report.checked == 0:
        typer.echo(f"nothing was compared: the log holds no version of model {model!r} yet", err=True)
        raise typer.Exit(NOTHING_COMPARED)
