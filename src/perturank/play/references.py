"""How well known a document is: how many modules of the library import its module, and how many use its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

WORD = re.compile(r"[A-Za-z_]\w*")
IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+(.+)|import\s+(.+))$", re.MULTILINE)


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


def counted(
    documents: Iterable[tuple[str, str]], texts: Iterable[tuple[str, str]]
) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Return how many other modules use each (module, name), and how many import each module.

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
