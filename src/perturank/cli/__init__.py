"""The command line: what is said, and how it fails."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from perturank import interrupts, machine
from perturank.__about__ import __version__
from perturank.cli import (
    check,
    evaluate,
    export,
    imports,
    inventory,
    learn,
    live_tests,
    log,
    play,
    reproduce,
    serve,
    simulate,
    warm_start,
)
from perturank.errors import BadInput

# Packages that only some commands need: commands import what they need themselves, so that --help does not load JAX.
EXTRAS = (
    dict.fromkeys(("httpx", "msgspec", "prometheus_client", "starlette", "uvicorn"), "service")
    | dict.fromkeys(("bm25s", "Stemmer"), "play")
    | {"pyarrow": "results"}
)


class Commands(TyperGroup):
    """The commands, where every mistake of the user ends in one line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an interruption that it does not explain itself is one line too."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo(interrupts.MESSAGE, err=True)
            raise typer.Exit(interrupts.INTERRUPTED) from None

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run a command and leave the process with its exit code."""
        try:
            code = super().main(*args, **options | {"standalone_mode": False})
        except BadInput as error:
            _fail(str(error))
        except typer.TyperException as error:
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "perturank"
            _fail(f"{error.format_message().rstrip('.')} (see {command} --help)")
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            _fail(f"{error.name} is not installed; run: pip install 'perturank[{EXTRAS[error.name]}]'")
        except OSError as error:
            _fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(2)


app = typer.Typer(
    name="perturank",
    cls=Commands,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("simulate")(simulate.simulate)
app.command("rankers")(inventory.rankers)
app.command("check")(check.check)
app.command("users")(inventory.users)
app.command("datasets")(inventory.data_sets)
app.command("data")(inventory.data)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(reproduce.redraw)
app.command("merge")(reproduce.merge)
app.command("serve")(serve.serve)
app.command("play")(play.play)
app.command("learn")(learn.learn)
app.command("replay")(learn.replay)
app.add_typer(imports.import_commands, name="import")
app.command("export")(export.export)
app.command("push")(export.push)
app.command("warm-start")(warm_start.warm_start)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(log.log_commands, name="log")
app.add_typer(live_tests.test_commands, name="test")
app.add_typer(serve.key_commands, name="keys")


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Online learning to rank: simulate the paper's rankers on real or synthetic data.

    Begin with: perturank reproduce --scale demo
    """
    if version:
        typer.echo(__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line."""
    interrupts.end_at_interrupt()
    run(app, "perturank")


def run(commands: typer.Typer, name: str) -> NoReturn:
    """Run a command line of this name, which loads JAX no earlier than here, and end the process."""
    machine.pin_threads()
    machine.keep_compiled_programs()
    try:
        commands(prog_name=name)
    except SystemExit as ended:
        _leave(ended.code if isinstance(ended.code, int) else 1 if ended.code else 0)
    _leave(0)


def _leave(code: int) -> NoReturn:
    """End the process after Python's own work, without the destructors of C++: one of them aborts now and then."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
