from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import perturank
from perturank.__about__ import __version__

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "perturank").rglob("*.py"))
LABEL = re.compile(r"\b(?:eqn?|alg|def|lemma|table|fig|prop|sec|assumption):[A-Za-z0-9_]+")


def docstrings(path: Path) -> list[str]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, documented)]
    return [text for node in nodes if (text := ast.get_docstring(node))]


def test_every_label_cited_in_a_docstring_exists_in_the_paper() -> None:
    known = set((ROOT / "tests" / "paper_labels.txt").read_text().split())
    cited = {(path.name, label) for path in SOURCES for text in docstrings(path) for label in LABEL.findall(text)}
    assert cited
    assert {(name, label) for name, label in cited if label not in known} == set()


def test_the_version_is_the_same_wherever_it_is_written() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert perturank.__version__ == __version__
    assert metadata.version("perturank") == __version__
    assert f"\nversion: {__version__}\n" in citation
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert json.loads((ROOT / "clients/typescript/package.json").read_text())["version"] == __version__


def test_the_source_distribution_holds_every_file_of_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {str(path.relative_to(ROOT)) for path in SOURCES} <= held


def test_all_installs_every_extra_but_the_developers() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set(re.findall(r"\w+", extras["all"][0].partition("[")[2]))
    assert named == set(extras) - {"all", "bench", "dev", "docs"}


def test_the_command_line_starts_without_loading_jax() -> None:
    program = "import sys, perturank.cli; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.mark.parametrize(
    "first, names",
    [("os", "perturank"), ("jax", "perturank.client, perturank.datasets, perturank.simulation, perturank.storage")],
)
def test_importing_the_package_changes_nothing_in_the_environment(first: str, names: str) -> None:
    program = f"import os, {first}; before = dict(os.environ); import {names}; exit(before != dict(os.environ))"
    unset = {name: value for name, value in os.environ.items() if "NPROC" not in name and "THREADS" not in name}
    assert subprocess.run([sys.executable, "-c", program], timeout=60, env=unset).returncode == 0


def test_the_command_line_runs_with_one_thread_unless_told(tmp_path: Path) -> None:
    program = (
        "import atexit, os; from perturank.cli import main; atexit.register(lambda: print(os.environ['NPROC'])); main()"
    )
    for given, expected in (({}, "1"), ({"NPROC": "2"}, "2")):
        environment = {name: value for name, value in os.environ.items() if name != "NPROC"} | given
        command = [sys.executable, "-c", program, "--version"]
        printed = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment).stdout
        assert printed.split() == [__version__, expected]


def test_a_command_whose_packages_are_missing_says_what_to_install(tmp_path: Path) -> None:
    program = "import sys; sys.modules['msgspec'] = None; from perturank.cli import main; main()"
    command = [sys.executable, "-c", program, "log", "show"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == "error: msgspec is not installed; run: pip install 'perturank[service]'\n"


def test_an_interpreter_that_is_too_old_is_refused_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.9.2 && exit\nexit 1\n')
    old.chmod(0o755)
    refused = make_venv(old, tmp_path / "venv")
    assert refused.returncode == 2
    assert refused.stderr == "error: Python 3.9.2 is too old; perturank needs 3.11 or newer: make PYTHON=python3.11\n"
    assert not (tmp_path / "venv").exists()


def test_a_python_without_venv_is_told_which_package_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\ncase "$2" in *ensurepip*) exit 1 ;; esac\nexec {sys.executable} "$@"\n')
    bare.chmod(0o755)
    for tool in ("bash", "id"):  # and no apt-get, with which root would install the package
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    refused = make_venv(bare, tmp_path / "venv", PATH=str(tmp_path))
    assert refused.returncode == 2
    assert "apt-get install python3-venv" in refused.stderr


def make_venv(python: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "scripts" / "make-venv", python, folder]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | environment)
