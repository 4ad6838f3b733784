"""The TypeScript client: it is what the OpenAPI document makes it, compiles, and talks to a service."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.fenced import blocks
from helpers.serving import Serving

from clients.typescript import generate

FOLDER = generate.FILE.parent
COMPILER = FOLDER / "node_modules" / ".bin" / "tsc"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    started = Serving(tmp_path_factory.mktemp("serving"))
    yield started
    started.kill()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the client, the program of this test and that of the README, with everything that `tsc` can check."""
    if shutil.which("node") is None or not COMPILER.exists():
        pytest.skip("Node 20 or TypeScript is not installed: scripts/make-typescript says what is missing")
    folder = tmp_path_factory.mktemp("typescript")
    shutil.copy(generate.FILE, folder)
    shutil.copy(Path(__file__).parent / "talk.ts", folder)
    (readme,) = (block.text for block in blocks(FOLDER / "README.md") if block.language == "ts")
    (folder / "readme.ts").write_text(readme)
    settings = json.loads((FOLDER / "tsconfig.json").read_text())["compilerOptions"] | {"outDir": "dist"}
    programs = {"compilerOptions": settings, "files": ["talk.ts", "readme.ts"]}
    (folder / "tsconfig.json").write_text(json.dumps(programs))
    (folder / "package.json").write_text('{"type": "module"}')
    done = subprocess.run([COMPILER], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    return folder / "dist"


def run(program: Path, *arguments: str) -> str:
    done = subprocess.run(["node", program, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_file_is_what_the_document_makes_it() -> None:
    assert generate.FILE.read_text(encoding="utf-8") == generate.written(), "the API has changed: make typescript"


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (FOLDER / "package-lock.json").read_text()


def test_it_compiles_and_does_what_an_application_does(compiled: Path, serving: Serving) -> None:
    assert run(compiled / "talk.js", serving.url) == "done"


def test_the_program_of_its_readme_runs(compiled: Path, serving: Serving) -> None:
    program = compiled / "readme.js"
    program.write_text(program.read_text().replace("http://127.0.0.1:8765", serving.url).replace("500", "60_000"))
    assert run(program) == "recorded"
