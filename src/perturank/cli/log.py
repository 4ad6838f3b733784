"""`perturank log`: what is in a log, and whether it is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from perturank import machine
from perturank.cli.console import table, to_people, to_programs
from perturank.cli.learn import DEFAULT_LOG, KeepImpressions, KeepSpan, LogUrl
from perturank.errors import BadInput
from perturank.service.settings import Retention, without_password

log_commands = typer.Typer(help="Look into a service's log.", no_args_is_help=True)


@log_commands.command("export")
def export(
    log: LogUrl = DEFAULT_LOG,
    format: Annotated[Literal["jsonl"], typer.Option(help="One JSON object a line.")] = "jsonl",
    model: Annotated[str | None, typer.Option(help="Of this model alone.")] = None,
    after: Annotated[int, typer.Option(help="Behind this position.", min=0)] = 0,
    features: Annotated[
        bool, typer.Option("--features", help="With the features of shown documents and candidates.")
    ] = False,
) -> None:
    """Print every record in order."""
    from perturank.service.log import candidates, open_log
    from perturank.service.log import records as log_export

    opened = open_log(log)
    try:
        for record in opened.read(after=after, model=model):
            values = log_export.as_json(record, opened.secret, with_features=features)
            to_programs(values | candidates.candidates_as_json(record.entry, with_features=features))
    finally:
        opened.close()


@log_commands.command("verify")
def verify(log: LogUrl = DEFAULT_LOG) -> None:
    """Check order, references, feedback and stored versions; exit code 1: something is wrong."""
    from perturank.service.learner import retention
    from perturank.service.learner import verify as log_verify
    from perturank.service.log import open_log

    opened = open_log(log)
    try:
        found = list(log_verify.faults(opened))
        n = opened.tail() - retention.n_removed(opened)
    finally:
        opened.close()
    for fault in found:
        typer.echo(fault, err=True)
    to_programs({"records": n, "faults": len(found)})
    if found:
        raise typer.Exit(1)


@log_commands.command("backup")
def backup(
    out: Annotated[Path, typer.Argument(help="A new file, which only its owner will be able to read.")],
    log: LogUrl = DEFAULT_LOG,
) -> None:
    """Copy a SQLite log as it is at this moment, while a service runs or not."""
    from perturank.service.log import open_log
    from perturank.service.log.sqlite import SqliteLog

    opened = open_log(log)
    try:
        if not isinstance(opened, SqliteLog):
            raise BadInput("the log is in PostgreSQL", "copy it with pg_dump, or as your other databases are copied")
        opened.back_up(out)
    finally:
        opened.close()
    to_programs({"file": str(out), "bytes": out.stat().st_size})


@log_commands.command("compact")
def compact(
    log: LogUrl = DEFAULT_LOG,
    keep: KeepSpan = None,
    keep_impressions: KeepImpressions = None,
    model: Annotated[str | None, typer.Option(help="Of this model alone.")] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a learner that is at work.", min=0)] = 60.0,
    threads: Annotated[int, typer.Option(help="Threads; the last bits depend on them.", min=1)] = 1,
) -> None:
    """Delete old records and let replay begin at a base; exit code 1: a learner has still to delete them."""
    machine.pin_threads(threads)
    from perturank.service.learner import retention
    from perturank.service.log import open_log

    kept = Retention.of(keep, keep_impressions)
    if kept is None:
        raise BadInput("nothing says how much is to be kept", "give --keep 30d or --keep-impressions 100000")
    opened = open_log(log)
    try:
        before = opened.size()
        names = [model] if model is not None else retention.known(opened)
        for name in names:
            found = retention.compact(opened, name, kept)
            about = {"base": found.at, "version": found.version, "learned": found.learned} if found else {"base": None}
            to_programs({"model": name, **about})
        tests = retention.compact_tests(opened, kept) if model is None else []
        done = retention.finish(opened, dict.fromkeys([*names, *tests], 0), wait)
        to_programs({"bytes_before": before, "bytes_after": opened.size(), "done": done})
    finally:
        opened.close()
    if not done:
        typer.echo("another learner is at work: it deletes old records as soon as it can", err=True)
        raise typer.Exit(1)


@log_commands.command("erase")
def erase(
    source: Annotated[str, typer.Argument(help="A client, user or session, as it was sent with its requests.")],
    log: LogUrl = DEFAULT_LOG,
    model: Annotated[str | None, typer.Option(help="Of this model alone.")] = None,
    unlearn: Annotated[
        bool, typer.Option("--unlearn", help="Also rebuild the models without it, and withdraw earlier versions.")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a learner that is at work.", min=0)] = 60.0,
    threads: Annotated[int, typer.Option(help="Threads; the last bits depend on them.", min=1)] = 1,
) -> None:
    """Delete every impression and click of a source; exit code 1: a learner has still to do it."""
    machine.pin_threads(threads)
    from perturank.service.learner import process, retention
    from perturank.service.log import open_log

    opened = open_log(log)
    try:
        requests = retention.request_erasure(opened, source, model, unlearn=unlearn)
        if unlearn and opened.try_to_lead():
            process.learn(opened, once=True)
        done = retention.finish(opened, requests, wait)
    finally:
        opened.close()
    to_programs({"wishes": requests, "done": done})
    if not done:
        typer.echo("another learner is at work: it deletes them as soon as it can", err=True)
        raise typer.Exit(1)


@log_commands.command("show")
def show(
    log: LogUrl = DEFAULT_LOG, n: Annotated[int, typer.Option(help="The last so many records.", min=1)] = 20
) -> None:
    """Print the last records and how many there are of each kind."""
    from perturank.service.learner import retention
    from perturank.service.log import open_log
    from perturank.service.log import records as log_export

    opened = open_log(log)
    try:
        tail, size = opened.tail(), opened.size()
        listed = table(
            f"{without_password(log)}: {tail - retention.n_removed(opened):,} records, {size / 1e6:,.1f} MB",
            "position",
            "at",
            "model",
            "kind",
            "what",
        )
        for record in opened.read(after=max(0, tail - n)):
            values = log_export.as_json(record, opened.secret)
            kept = {k: v for k, v in values.items() if k not in ("position", "at", "model", "kind", "spec", "checksum")}
            what = " ".join(f"{key}={value}" for key, value in kept.items())
            listed.add_row(str(values["position"]), values["at"][:19], values["model"], values["kind"], what)
    finally:
        opened.close()
    to_people(listed, 120)
