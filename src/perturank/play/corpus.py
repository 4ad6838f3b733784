"""What is searched: every public module, class, function and method of the standard library that is running."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perturank.errors import BadInput
from perturank.machine import cache_folder
from perturank.storage import put

FORMAT = 2
SECONDS = 120
PROGRAM = Path(__file__).with_name("stdlib_reader.py")
OnProgress = Callable[[int, int], None]  # how many modules are done, of how many
WORD = re.compile(r"[A-Za-z_]\w*")
IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+(.+)|import\s+(.+))$", re.MULTILINE)


@dataclass(frozen=True)
class LibraryDocument:
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


def load_documents(on_progress: OnProgress = lambda done, of: None) -> list[LibraryDocument]:
    """Return the documents of the running Python from the cache; the first time, read the library and fill it."""
    file = cache_folder() / f"library-{sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}-{FORMAT}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        put(file, json.dumps([asdict(each) for each in read_library(on_progress)]).encode())
    try:
        return [LibraryDocument(**each) for each in json.loads(file.read_bytes())]
    except (TypeError, ValueError) as error:
        raise BadInput(f"{file} is damaged ({error})", "remove it; it is made again") from None


def read_library(on_progress: OnProgress) -> list[LibraryDocument]:
    """Return the documents that a process of its own reads from the whole library."""
    found: list[dict[str, Any]] = []
    files: dict[str, str | None] = {}
    for line in run_reader():
        found += line["documents"]
        files[line["module"]] = line["source"]
        on_progress(line["done"], line["of"])
    found = unique(found)
    uses, importers = count_references([(each["module"], each["name"]) for each in found], sources(files))
    return [
        LibraryDocument(**each, uses=uses[each["module"], each["name"]], importers=importers[each["module"]])
        for each in sorted(found, key=lambda each: (each["module"], each["name"]))
    ]


def unique(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one document to a name: `unittest.main` is what `unittest` exports rather than the module behind it."""
    by_path: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in sorted(found, key=lambda each: each["kind"] == "module"):
        by_path.setdefault(tuple(f"{each['module']}.{each['name']}".strip(".").split(".")), each)
    return list(by_path.values())


def run_reader() -> Iterator[dict[str, Any]]:
    """Yield the lines of the reader, which runs in an empty folder, with no display and no browser."""
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


def sources(files: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield the modules that have a source, with its text."""
    for module, file in files.items():
        if file is not None and file.endswith(".py"):
            yield module, Path(file).read_text(encoding="utf-8", errors="replace")


def imports(text: str) -> set[str]:
    r"""Return the modules that a source imports; `os` brings `os.path` along.

    >>> sorted(imports("import os.path, re as r\nfrom json import loads"))
    ['json', 'json.loads', 'os', 'os.path', 're']
    """
    found: set[str] = set()
    for origin, names, plain in IMPORT.findall(text):
        if origin:
            found |= {origin} | {f"{origin}.{word}" for word in WORD.findall(names.split("#")[0])}
        for each in plain.split("#")[0].split(","):
            found |= _with_parents(each.split(" as ")[0].strip())
    return (found | ({"os.path"} if "os" in found else set())) - {""}


def _with_parents(module: str) -> set[str]:
    parts = module.split(".")
    return {".".join(parts[:n]) for n in range(1, len(parts) + 1)}


def count_references(
    documents: Iterable[tuple[str, str]], texts: Iterable[tuple[str, str]]
) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Return how well known documents are: how many other modules use each (module, name), and import each module.

    A use is the name in a source that imports its module; what is built in needs no import.
    """
    by_module: dict[str, set[str]] = {}
    for module, name in documents:
        by_module.setdefault(module, set()).add(name)
    uses: Counter[tuple[str, str]] = Counter()
    importers: Counter[str] = Counter()
    for module, text in texts:
        words, known = set(WORD.findall(text)), imports(text) | {"builtins"}
        for other in (by_module.keys() & known) - {module}:
            importers[other] += other != "builtins"
            uses.update((other, name) for name in by_module[other] if name.rpartition(".")[2] in words)
    return uses, importers
