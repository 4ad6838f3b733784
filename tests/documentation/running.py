"""Runs the blocks of a page as a reader would: one folder, one shell environment, one Python session."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from helpers.fenced import ROOT, Block
from helpers.serving import Serving
from typer import Typer
from typer.main import get_command

from benchmarks.__main__ import app as benchmarks
from perturank.cli import app

AS_WRITTEN = "127.0.0.1:8765"
DATABASE = "postgresql://perturank@db.example.org/perturank"
SECONDS = 300
BENCHMARKS = {"bench": "speed", "bench-service": "service"}  # targets of make, and the command that each runs
STRICTLY = 'set -eo pipefail; curl() { command curl --fail-with-body -sS "$@"; }\n'


class Reader:
    """Someone who types in every block of a page; `server` answers where a page says `perturank serve`."""

    def __init__(self, folder: Path, home: Path, server: Serving | None = None) -> None:
        self.folder, self.server = folder, server
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = os.environ | {"PATH": path, "HOME": str(home), "REPOSITORY": str(ROOT)}
        (folder / "path").mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (folder / "path" / "to").symlink_to(home / "data")

    def follow(self, block: Block) -> None:
        """Run a block; one that cannot be run is an error."""
        if "before" in block.how:
            self._shell(block.how["before"], block)
        if "file" in block.how:
            self._parse(block)
            target = self.folder / block.how["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
        elif "output" in block.how:
            expected = re.escape(block.text.strip()).replace("…", ".*?")
            assert re.fullmatch(expected, self.printed.strip(), re.S), f"{block.where} prints {self.printed}"
        elif "run as" in block.how:
            must_be_understood(block)
            self._shell(block.how["run as"], block)
        elif block.language == "python":
            self._python(block)
        elif block.language == "sh":
            self._shell(block.text, block)
        else:
            self._parse(block)

    def _parse(self, block: Block) -> None:
        """Read what is no program; a language that is not known here cannot be checked."""
        match block.language:
            case "json":
                json.loads(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "python":
                compile(block.text, block.where, "exec")
            case "text":
                pass
            case other:
                raise AssertionError(f"{block.where}: no way is known to run a block of {other or 'no language'!r}")

    def _python(self, block: Block) -> None:
        program = compile("\n" * block.line + self._here(block.text), str(block.page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.chdir(self.folder):
            exec(program, self.names)
        self.printed = printed.getvalue()

    def _shell(self, text: str, block: Block) -> None:
        """Run shell lines; `perturank serve` does not return, so the server is already there."""
        lines = [line for line in text.splitlines() if not self._is_serving(line)]
        script = STRICTLY + self._here("\n".join(lines))
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{block.where}\n{script}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        self.printed = done.stdout

    def _is_serving(self, line: str) -> bool:
        words = shlex.split(line, comments=True)
        if words[:2] != ["perturank", "serve"] or "--show-settings" in words:
            return False
        understood(words)
        assert self.server is not None, f"no server for {line}"
        return True

    def _here(self, text: str) -> str:
        """Return the text with the addresses of the server and the database that run here."""
        if self.server is None:
            return text
        return text.replace(AS_WRITTEN, self.server.url.removeprefix("http://")).replace(DATABASE, self.server.log)


def must_be_understood(block: Block) -> None:
    """Check that the command line knows every command and option of a block that runs in another form."""
    joined = block.text.replace("\\\n", " ")
    said = [words for line in joined.splitlines() if (words := shlex.split(line, comments=True))]
    for words in said:
        if words[0] == "perturank":
            understood(words)
        elif words[0] == "make" and words[1] in BENCHMARKS:
            given = [word.removeprefix("ARGS=") for word in words[2:]]
            understood(["benchmarks", BENCHMARKS[words[1]], *shlex.split(" ".join(given))], benchmarks)


def understood(words: list[str], commands: Typer = app) -> None:
    """Let the command line read these words, without doing what they say."""
    command, rest = get_command(commands), words[1:]
    while hasattr(command, "commands"):
        assert rest, words
        assert rest[0] in command.commands, words
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context(words[1], list(rest))
