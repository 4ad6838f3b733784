"""`perturank learn` and `perturank replay`: the log into a model, live and again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perturank import machine
from perturank.cli.console import to_programs
from perturank.cli.simulate import named_values
from perturank.errors import BadInput
from perturank.service import children
from perturank.service.settings import LineFormat, Retention

if TYPE_CHECKING:
    from perturank.service.log import Log
    from perturank.service.log.spec import Spec

LogUrl = Annotated[str, typer.Option("--log", envvar="PERTURANK_LOG", help="sqlite:///FILE or postgresql://…")]
KeepSpan = Annotated[str | None, typer.Option("--keep", help="Records kept before the newest: 30d, 12h, 90s.")]
KeepImpressions = Annotated[
    int | None, typer.Option("--keep-impressions", help="Learned impressions of each model that are kept.", min=0)
]
DEFAULT_LOG = "sqlite:///perturank.db"
NOTHING_COMPARED = 3  # exit code
STDOUT = Path("-")


def learn(
    log: LogUrl = DEFAULT_LOG,
    once: Annotated[bool, typer.Option("--once", help="Stop when there is nothing more to learn.")] = False,
    threads: Annotated[int, typer.Option(help="Threads; the last bits depend on them.", min=1)] = 1,
    keep: KeepSpan = None,
    keep_impressions: KeepImpressions = None,
    log_lines: Annotated[
        LineFormat, typer.Option(envvar="PERTURANK_LOG_LINES", help="Lines on stderr: text, or json.")
    ] = "text",
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Learn from the clicks in a log as they come, and publish versions. `perturank serve` starts one by itself."""
    machine.pin_threads(threads)
    from perturank.service.learner import checkpoint, process
    from perturank.service.log import open_log

    if not once:
        machine.keep_freed_memory()
    retention = Retention.of(keep, keep_impressions)
    if with_parent:
        children.wait_for_parent()
    opened = open_log(log)
    try:
        finished = process.learn(opened, once=once, with_parent=with_parent, retention=retention, log_lines=log_lines)
        if once and finished is not None:
            for name in checkpoint.living(opened):
                state = finished.states[name]
                to_programs({"model": name, "version": state.version, "learned": state.learned})
    finally:
        opened.close()


def replay(
    model: Annotated[
        str | None, typer.Option(help="The model to rebuild; by default `default`, and with --verify all.")
    ] = None,
    log: LogUrl = DEFAULT_LOG,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every version; exit code 1: bits differ, 3: no version.")
    ] = False,
    at: Annotated[int | None, typer.Option(help="Stop at this position.", min=1)] = None,
    version: Annotated[int | None, typer.Option(help="Rebuild this published version.", min=1)] = None,
    ranker: Annotated[str | None, typer.Option(help="What would this one have learned?")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A hyper-parameter, as name=value.")] = None,
    seed: Annotated[int, typer.Option(help="Of the other ranker.", min=0)] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the rebuilt ranker to this file; -: to stdout.")] = None,
    threads: Annotated[int, typer.Option(help="Threads; the last bits depend on them.", min=1)] = 1,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Rebuild a model from the log alone, to the very same bits.

    [bold]Examples[/bold]

    perturank replay --model books --verify

    perturank replay --model books --version 7 --out books-7.safetensors
    """
    if with_parent:
        children.stay_with_parent()
    machine.pin_threads(threads)
    from perturank.service.learner import checkpoint
    from perturank.service.log import open_log
    from perturank.service.log.refusals import Refused
    from perturank.service.log.spec import Spec

    if verify and (ranker is not None or at is not None):
        raise BadInput("--verify compares with the newest version", "leave out --at and --ranker")
    if version is not None and (verify or at is not None or ranker is not None):
        raise BadInput("--version rebuilds what was published", "leave out --verify, --at and --ranker")
    if changes and ranker is None:
        raise BadInput("--set changes another ranker", "name it with --ranker")
    try:
        with contextlib.closing(open_log(log)) as opened:
            every = checkpoint.living(opened) if verify and model is None and out is None else []
            one = model or "default"
            if version is not None:
                _write_version(opened, one, version, out)
            else:
                instead = None if ranker is None else Spec.other(ranker, named_values(changes or []), seed)
                codes = [_write_replayed(opened, each, at, instead, verify, out) for each in every or [one]]
                # One that differs counts before those that have no version yet.
                if 1 in codes or all(codes):
                    raise typer.Exit(1 if 1 in codes else max(codes))
    except Refused as refused:
        if not with_parent:
            raise
        to_programs(refused.told())
        raise typer.Exit(children.REFUSED) from None


def _write_version(opened: Log, model: str, version: int, out: Path | None) -> None:
    """Rebuild a published version, as the service gives it in a file."""
    from perturank.service.learner import replay as replays
    from perturank.service.log import snapshots

    rebuilt = replays.rebuild_version(opened, model, version)
    if out is not None:
        published = snapshots.found(opened, model, version)
        assert published is not None
        scaling = snapshots.spec_at(opened, model, published.position).scaling
        _write(snapshots.file_bytes(rebuilt, model, version, scaling=scaling), out)
    said = {"model": model, "version": version, "digest": snapshots.digest(rebuilt, whole=True).hex()}
    to_programs(said, beside=out == STDOUT)


def _write_replayed(
    opened: Log, model: str, at: int | None, instead: Spec | None, verify: bool, out: Path | None
) -> int:
    """Follow the log to a position or to its end, and say what was met; return the exit code."""
    from perturank.service.learner import replay as replays
    from perturank.service.log import snapshots

    report = replays.rebuild(opened, model, at=at, instead=instead)
    whole = report.differs is None and (not verify or replays.matches_stored(opened, report))
    state = report.state
    if out is not None:
        _write(snapshots.state_bytes(report.ranker), out)
    said: dict[str, Any] = {
        "model": model,
        "position": state.at,
        "learned": state.learned,
        "version": state.version,
        "digest": snapshots.digest(report.ranker, whole=True).hex(),
    }
    same = {"versions_compared": report.checked, "same_bits": whole if report.checked else None}
    to_programs(said | {"begins": report.begins} | (same if verify else {}), beside=out == STDOUT)
    if verify and not whole:
        which = "the newest version" if report.differs is None else f"version {report.differs}"
        typer.echo(f"{which} is not what the log makes of model {model!r}", err=True)
        return 1
    if verify and report.checked == 0:
        typer.echo(f"nothing was compared: the log holds no version of model {model!r} yet", err=True)
        return NOTHING_COMPARED
    return 0


def _write(content: bytes, out: Path) -> None:
    from perturank import storage

    if out == STDOUT:
        typer.echo(content, nl=False)
    else:
        storage.put(out, content)
