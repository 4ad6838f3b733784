"""`perturank serve` and `perturank keys`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from perturank import machine
from perturank.cli.console import to_programs
from perturank.service import children
from perturank.service.settings import settled

File = Annotated[Path | None, typer.Option("--settings", help=r"TOML file with a table \[serve].")]


def serve(
    host: Annotated[str | None, typer.Option(help="Address; any but loopback needs --keys.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0: a free one.")] = None,
    log: Annotated[str | None, typer.Option(help="sqlite:///FILE or postgresql://…")] = None,
    learner: Annotated[str | None, typer.Option(help="child, or none: learn elsewhere.")] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="How far back records are kept, e.g. 30d; by default all."),
    ] = None,
    keep_impressions: Annotated[
        int | None, typer.Option(help="The same as a number of learned impressions of each model.", min=1)
    ] = None,
    keys: Annotated[str | None, typer.Option(help="File of API keys, made by `perturank keys`.")] = None,
    log_lines: Annotated[str | None, typer.Option(help="Lines on stderr: text, or json.")] = None,
    file: File = None,
    show_settings: Annotated[bool, typer.Option("--show-settings", help="Print the settings and stop.")] = False,
) -> None:
    r"""Rank over HTTP and learn from the clicks. Every setting is also PERTURANK_NAME, or in a TOML file.

    It needs: pip install 'perturank\[service]'
    """
    machine.pin_threads(1)
    flags = {
        "host": host,
        "port": port,
        "log": log,
        "learner": learner,
        "keep": keep,
        "keep_impressions": keep_impressions,
        "keys": keys,
        "log_lines": log_lines,
    }
    settings = settled(flags, os.environ, file)
    if show_settings:
        to_programs(settings.shown())
        return
    settings = settings.checked()
    # First: it loads JAX and the rankers while this process does.
    child = children.start(*settings.learner_words, log=settings.log) if settings.learner == "child" else None
    from perturank.service.http import server  # last: the settings can be shown without loading JAX

    server.serve(settings, typer.echo, learner=child)


key_commands = typer.Typer(help="API keys of a service.", no_args_is_help=True)


@key_commands.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    file: Annotated[Path, typer.Option("--keys", help="File of keys.")] = Path("perturank.keys"),
    scope: Annotated[list[str] | None, typer.Option(help="serve, admin, or ubi: for pages; may be repeated.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Only for this model; may be given twice.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the key into this new file; else it is printed.")] = None,
) -> None:
    """Make a key and print it, once: only its hash is kept."""
    from perturank.service.http import auth

    scopes: tuple[Literal["ubi", "serve", "admin"], ...] = auth.checked_scopes(scope or ["serve"])
    models = tuple(model) if model else None
    if out is None:
        typer.echo(auth.add_key(file, name, scopes, models))
    else:
        auth.write_key(out, lambda: auth.add_key(file, name, scopes, models))


@key_commands.command("list")
def list_keys(file: Annotated[Path, typer.Option("--keys", help="File of keys.")] = Path("perturank.keys")) -> None:
    """Print the keys' names and what they may do."""
    from perturank.service.http import auth

    for key in auth.read_keys(file):
        to_programs({"name": key.name, "scopes": key.scopes, "models": key.models})
