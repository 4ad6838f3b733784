"""What is searched: every public module, class, function and method of the standard library that is running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perturank.errors import BadInput
from perturank.machine import cache_folder
from perturank.play import references
from perturank.storage import put

FORMAT = 2
SECONDS = 120
PROGRAM = Path(__file__).with_name("gathering.py")
Told = Callable[[int, int], None]  # how many modules are done, of how many


@dataclass(frozen=True)
class Document:
    """One entry of the library's documentation, with what is known about its place in the library."""

    module: str
    name: str  # within the module; empty: the module itself
    kind: str  # module, class, function or method
    signature: str
    text: str
    exported: bool  # named in its module's __all__
    uses: int  # other modules that use the name
    importers: int  # other modules that import its module

    @property
    def path(self) -> str:
        """The whole name, by which the document is known."""
        return f"{self.module}.{self.name}" if self.name else self.module

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, on one line."""
        return " ".join(self.text.split("\n\n")[0].split())


def library(told: Told = lambda done, of: None) -> list[Document]:
    """Return the documents of the running Python, from the cache or gathered now."""
    file = cache_folder() / f"library-{sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}-{FORMAT}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        put(file, json.dumps([asdict(each) for each in gathered(told)]).encode())
    try:
        return [Document(**each) for each in json.loads(file.read_bytes())]
    except (TypeError, ValueError) as error:
        raise BadInput(f"{file} is damaged ({error})", "remove it; it is made again") from None


def gathered(told: Told) -> list[Document]:
    """Return the documents, gathered by a process that imports the whole library."""
    found: list[dict[str, Any]] = []
    files: dict[str, str | None] = {}
    for line in _lines():
        found += line["documents"]
        files[line["module"]] = line["source"]
        told(line["done"], line["of"])
    found = _each_once(found)
    uses, importers = references.counted([(each["module"], each["name"]) for each in found], references.sources(files))
    return [
        Document(**each, uses=uses[each["module"], each["name"]], importers=importers[each["module"]])
        for each in sorted(found, key=lambda each: (each["module"], each["name"]))
    ]


def _each_once(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one document to a name: `unittest.main` is what `unittest` exports rather than the module behind it."""
    by_path: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in sorted(found, key=lambda each: each["kind"] == "module"):
        by_path.setdefault(tuple(f"{each['module']}.{each['name']}".strip(".").split(".")), each)
    return list(by_path.values())


def _lines() -> Iterator[dict[str, Any]]:
    """Yield what the gathering process writes; it works in an empty folder, with no display and no browser."""
    quiet = {"PATH": os.environ.get("PATH", ""), "BROWSER": "true", "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-I", "-S", str(PROGRAM)]
        child = subprocess.Popen(
            command, cwd=folder, env=quiet, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            assert child.stdout is not None
            for line in child.stdout:
                yield json.loads(line)
            if child.wait(SECONDS):
                raise BadInput(f"the library cannot be read: {PROGRAM.name} ended with {child.returncode}", "run it")
        finally:
            child.kill()
            child.wait()
