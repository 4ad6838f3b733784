"""The README's programs run as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S)
    return [text for spoken, text in fenced if spoken == language]


def test_the_first_program_is_short_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = blocks("python")[0]
    assert len([line for line in program.splitlines() if line.strip()]) <= 15
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(program, "README.md", "exec"), names)
    assert (tmp_path / "ranker.safetensors").exists()
    assert len(np.unique(names["ranking"].documents)) == 10  # type: ignore[attr-defined]
    assert "[" in capsys.readouterr().out


def test_every_command_of_the_readme_exists() -> None:
    from perturank.cli import app

    known = {command.name for command in app.registered_commands}
    said = {shlex.split(line)[1] for line in re.findall(r"^perturank .*$", "".join(blocks("")), re.M)}
    assert said
    assert said <= known
