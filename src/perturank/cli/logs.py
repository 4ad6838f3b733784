"""`perturank log`: what is in a log, and whether it is whole."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from perturank.cli.later import exporting, opening, verifying
from perturank.cli.learning import DEFAULT_LOG, LogUrl
from perturank.cli.printing import table, to_people, to_programs
from perturank.service.settings import without_password

log_commands = typer.Typer(help="Look into a service's log.", no_args_is_help=True)


@log_commands.command("export")
def export(
    log: LogUrl = DEFAULT_LOG,
    format: Annotated[Literal["jsonl"], typer.Option(help="One JSON object a line.")] = "jsonl",
    model: Annotated[str | None, typer.Option(help="Of this model alone.")] = None,
    after: Annotated[int, typer.Option(help="Behind this position.", min=0)] = 0,
    features: Annotated[bool, typer.Option("--features", help="With the shown documents' features.")] = False,
) -> None:
    """Print every record in order."""
    opened = opening.open_log(log)
    try:
        for record in opened.read(after=after, model=model):
            to_programs(exporting.exported(record, opened.secret, with_features=features))
    finally:
        opened.close()


@log_commands.command("verify")
def verify(log: LogUrl = DEFAULT_LOG) -> None:
    """Check order, references, feedback and stored versions; exit code 1: something is wrong."""
    opened = opening.open_log(log)
    try:
        found = list(verifying.faults(opened))
        n = opened.tail()
    finally:
        opened.close()
    for fault in found:
        typer.echo(fault, err=True)
    to_programs({"records": n, "faults": len(found)})
    if found:
        raise typer.Exit(1)


@log_commands.command("show")
def show(
    log: LogUrl = DEFAULT_LOG, n: Annotated[int, typer.Option(help="The last so many records.", min=1)] = 20
) -> None:
    """Print the last records and how many there are of each kind."""
    opened = opening.open_log(log)
    try:
        tail, size = opened.tail(), opened.size()
        listed = table(
            f"{without_password(log)}: {tail:,} records, {size / 1e6:,.1f} MB",
            "position",
            "at",
            "model",
            "kind",
            "what",
        )
        for record in opened.read(after=max(0, tail - n)):
            values = exporting.exported(record, opened.secret)
            kept = {k: v for k, v in values.items() if k not in ("position", "at", "model", "kind", "spec", "sum")}
            what = " ".join(f"{key}={value}" for key, value in kept.items())
            listed.add_row(str(values["position"]), values["at"][:19], values["model"], values["kind"], what)
    finally:
        opened.close()
    to_people(listed, 120)
