"""The Dockerfile and the Compose file: no engine runs them here, but every command line in them is parsed."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from helpers.serving import run
from typer.core import TyperGroup

from perturank.cli import app

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "perturank"}


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions with their arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines()) if name]


def said(instruction: str) -> str:
    """Return the arguments of the last instruction of this kind, which is the one that counts."""
    return [rest for name, rest in instructions() if name == instruction][-1]


def check(words: list[str]) -> None:
    """Parse a command line of perturank as far as running it."""
    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="perturank")
    while isinstance(command, TyperGroup):
        name, command, words = command.resolve_command(context, words)
        assert command is not None, name
        context = typer.Context(command, parent=context, info_name=name)
    command.make_context(name, words, parent=context.parent)


def command_of(service: dict[str, Any]) -> list[str]:
    return [*service.get("entrypoint", json.loads(said("ENTRYPOINT"))), *service["command"]]


@pytest.mark.parametrize("name", OURS)
def test_every_command_of_the_compose_file_is_one_of_ours(name: str) -> None:
    program, *words = command_of(OURS[name])
    assert program == "perturank"
    check(words)


def test_a_command_that_is_none_of_ours_is_noticed() -> None:
    for words in (["serf"], ["serve", "--hots", "0.0.0.0"], ["keys", "ad"]):
        with pytest.raises(typer.TyperException):
            check(words)


def test_the_settings_that_compose_gives_are_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OURS["serve"]["environment"].items():
        monkeypatch.setitem(os.environ, name, value)
    shown = json.loads(run(*command_of(OURS["serve"])[1:], "--show-settings").stdout)
    assert (shown["host"], shown["learner"], shown["keys"]) == ("0.0.0.0", "none", "/keys/perturank.keys")
    assert shown["log"] == "postgresql://perturank@postgres/perturank"  # its password is not in the address


def test_compose_runs_two_of_each_with_one_database() -> None:
    assert [OURS[name]["deploy"]["replicas"] for name in ("serve", "learn")] == [2, 2]
    assert set(COMPOSE["services"]) == {"serve", "learn", "keys", "postgres"}
    for service in COMPOSE["services"].values():
        named = {volume.partition(":")[0] for volume in service["volumes"]}
        assert named <= set(COMPOSE["volumes"])
        assert set(service.get("depends_on", {})) <= set(COMPOSE["services"])
    secrets = [str(service["environment"]) for service in COMPOSE["services"].values()]
    assert all("${POSTGRES_PASSWORD:?" in each for each in secrets)  # nobody starts without one of their own


def test_the_image_runs_what_exists_as_nobody_special() -> None:
    names = [name for name, _ in instructions()]
    assert {"FROM", "USER", "HEALTHCHECK", "ENTRYPOINT", "CMD"} <= set(names)
    known = "FROM WORKDIR COPY RUN ENV USER VOLUME EXPOSE HEALTHCHECK ENTRYPOINT CMD"
    assert set(names) <= set(known.split())
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert said("USER") == "perturank"
    check(json.loads(said("CMD")))
    assert "8765" in said("EXPOSE")
    compile(json.loads(said("HEALTHCHECK").partition("CMD ")[2])[2], "HEALTHCHECK", "exec")
    copied = [
        word for name, rest in instructions() if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]
    ]
    kept = (ROOT / ".dockerignore").read_text()
    for each in copied:
        assert (ROOT / each).exists()
        assert f"!{each}\n" in kept


def test_the_comments_of_the_compose_file_are_commands_too() -> None:
    lines = re.findall(
        r"^#   docker compose run --rm keys (.*?)\s*(?:#.*)?$", (ROOT / "compose.yaml").read_text(), re.M
    )
    assert lines
    for line in lines:
        check(["keys", *shlex.split(line)])
