"""`perturank play`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from perturank import machine
from perturank.cli.console import progress, to_programs
from perturank.cli.simulate import named_values
from perturank.errors import BadInput
from perturank.interrupts import interruptible


def play(
    simulate: Annotated[int | None, typer.Option(help="Known-item searches by simulated users.", min=1)] = None,
    user: Annotated[str, typer.Option(help="perfect, navigational or informational.")] = "perfect",
    rate: Annotated[float | None, typer.Option(help="Simulated searches a second; none: as fast as it learns.")] = None,
    beside: Annotated[str | None, typer.Option(help="A ranker to compare with, such as pdgd-neural or random.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Keep the log here, and go on from it; none: nothing.")] = None,
    port: Annotated[int, typer.Option(help="Port; 0: a free one.", min=0, max=65535)] = 8765,
    ends: Annotated[bool, typer.Option("--exit", help="Stop after the simulated searches.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome of the simulation as JSON.")] = False,
    seed: Annotated[int, typer.Option(help="What people look for, and how they click.", min=0)] = 1,
    changes: Annotated[list[str] | None, typer.Option("--set", help="A hyper-parameter, as name=value.")] = None,
) -> None:
    """Search the documentation of Python in the browser, click, and watch the ranking learn."""
    began = time.monotonic()
    machine.pin_threads(1)
    from perturank.play.corpus import load_documents
    from perturank.play.server import PlayServer, PlaySettings
    from perturank.play.simulated_users import Habit

    if (ends or as_json) and simulate is None:
        raise BadInput("--exit and --json are about simulated searches", "say how many: --simulate 2000")
    if as_json and not ends:
        raise BadInput("--json prints what came of the simulation", "add --exit, which stops after it")
    settings = PlaySettings(simulate, Habit(user, rate), beside, seed, port, ends, named_values(changes or []))
    settings.check()
    with progress() as bar:
        task = bar.add_task("reading the library")
        documents = load_documents(lambda done, of: bar.update(task, completed=done, total=of))
    server = PlayServer(documents, settings, lambda text: typer.echo(text, err=as_json))
    with interruptible(at_once=True), _existing(folder) as chosen:
        server.run(chosen)
    if as_json and server.outcome is not None:
        outcome = server.outcome
        seconds = round(time.monotonic() - began, 1)
        to_programs({"searches": outcome["searches"], "seconds": seconds} | outcome)


@contextmanager
def _existing(folder: Path | None) -> Iterator[Path]:
    """Yield the folder, or one that is gone afterwards."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="perturank-play-") as passing:
            yield Path(passing)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
