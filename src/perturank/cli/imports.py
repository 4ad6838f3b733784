"""`perturank import`: old clicks into a service's log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from perturank import machine
from perturank.cli.console import progress, table, to_people, to_programs
from perturank.cli.learn import DEFAULT_LOG, LogUrl
from perturank.interrupts import INTERRUPTED, interruptible

if TYPE_CHECKING:
    from perturank.service.history.report import Example, ImportReport

LISTS, WIDTH = "lists", 100
SOME_REFUSED = 1  # exit code
Model = Annotated[str, typer.Option(help="The model that is to learn from them.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read and check everything, and write nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")]


class FileOrKind(TyperGroup):
    """Commands of which one needs no name: `perturank import FILE` imports past lists."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Name the command where the first argument does not."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [LISTS, *args]
        return super().parse_args(ctx, args)


import_commands = typer.Typer(cls=FileOrKind, no_args_is_help=True, rich_markup_mode="rich")


@import_commands.callback()
def explain() -> None:
    """Let a model learn from old clicks: from lists that another system showed.

    [bold]Examples[/bold]

    perturank import clicks.jsonl --model shop

    perturank import clicks.parquet --log postgresql://rank@db/shop --model shop --dry-run

    perturank import ubi queries.ndjson events.ndjson.gz --features products.csv --model shop
    """


@import_commands.command(LISTS)
def import_lists(
    file: Annotated[Path, typer.Argument(help="Past lists: .jsonl, .jsonl.gz or .parquet.")],
    log: LogUrl = DEFAULT_LOG,
    model: Model = "default",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first list that is refused.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    r"""Import past lists with their clicks. The word `lists` may be left out; exit code 1: some were refused.

    A line of the file is one list, its first document first:

    {"query_id": "s1", "documents": \[{"id": "a", "features": \[1, 0.5]}, …], "clicks": \["a"]}

    Importing a file again changes nothing. The service may run meanwhile.

    [bold]Examples[/bold]

    perturank import clicks.jsonl --model shop

    perturank import clicks.jsonl.gz --model shop --strict

    perturank import clicks.parquet --log postgresql://rank@db/shop --model shop --dry-run --json
    """
    machine.pin_threads(1)
    from perturank.service.history.files import import_file

    machine.look_for_garbage_seldom()
    with _progress(file.name) as on_progress:
        report = import_file(file, log=log, model=model, strict=strict, dry_run=dry_run, on_progress=on_progress)
    if as_json:
        to_programs(report.as_dict())
    else:
        _print(report, _verb(dry_run), {"lists": (report.read, report.imported, report.known, report.refused)})
    if report.n_refused:
        raise typer.Exit(SOME_REFUSED)


@import_commands.command("ubi")
def import_ubi(
    files: Annotated[list[Path], typer.Argument(help="Query and event records: JSON lines, bulk format, or an array.")],
    features: Annotated[
        str, typer.Option(help="A table by object_id (.csv, .jsonl, .parquet), or module:function.", metavar="TABLE")
    ],
    log: LogUrl = DEFAULT_LOG,
    model: Model = "default",
    application: Annotated[str | None, typer.Option(help="Only its records; by default the model's, or all.")] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import User Behavior Insights (UBI) logs; every record is counted, or refused with a reason.

    Files may be compressed (.gz). The table has a column object_id, perhaps query and prior, and a column for each
    feature. A function is called with a query and a list of ids; it returns features for each, or None.

    [bold]Examples[/bold]

    perturank import ubi ubi.ndjson.gz --features products.csv --model shop

    perturank import ubi queries.ndjson events.ndjson --features my_shop:features --application web --dry-run
    """
    machine.pin_threads(1)
    from perturank.service.history import ubi
    from perturank.service.history.features import resolver

    machine.look_for_garbage_seldom()
    with _progress("UBI records") as on_progress:
        found = ubi.import_ubi(
            files,
            resolver(features),
            log=log,
            model=model,
            application=application,
            dry_run=dry_run,
            on_progress=on_progress,
        )
    lists = found.lists
    if as_json:
        to_programs(found.as_dict())
        return
    counts = {
        "records": (found.read, found.imported, found.known, found.refused),
        "lists": (lists.read, lists.imported, lists.known, lists.refused),
    }
    _print(lists, _verb(dry_run), counts)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[float], None]]:
    """Yield a function that moves a bar to a share, and stops at Ctrl-C."""
    try:
        with progress(counts=False) as bar, interruptible() as check:
            task = bar.add_task(what, total=1.0)

            def on_progress(share: float) -> None:
                bar.update(task, completed=share)
                check()

            yield on_progress
    except KeyboardInterrupt:
        typer.echo("interrupted; what was imported stays, and the same command goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _verb(dry_run: bool) -> str:
    return "would be imported" if dry_run else "imported"


def _print(report: ImportReport, verb: str, counts: Mapping[str, tuple[int, int, int, Counter[str]]]) -> None:
    for note in report.notes:
        typer.echo(f"note: {note}", err=True)
    listed = table(f"model {report.model}", "", *counts, numbers=True)
    columns = list(counts.values())
    rows = {
        "read": [each[0] for each in columns],
        verb: [each[1] for each in columns],
        "already there": [each[2] for each in columns],
        "refused": [each[3].total() for each in columns],
    }
    for name, numbers in rows.items():
        listed.add_row(name, *(f"{n:,}" for n in numbers))
    to_people(listed, WIDTH)
    reasons = Counter[str]()
    for each in columns:
        reasons |= each[3]
    if reasons:
        _print_refused(reasons, report.examples)


def _print_refused(reasons: Counter[str], examples: Mapping[str, Sequence[Example]]) -> None:
    typer.echo()
    listed = table("refused", "", "reason", "first")
    for reason, n in reasons.most_common():
        first = examples.get(reason, ())
        listed.add_row(f"{n:,}", reason, first[0].where if first else "")
    to_people(listed, WIDTH)
    for some in examples.values():
        for where, message in some:
            typer.echo(f"{where}: {message}", err=True)
