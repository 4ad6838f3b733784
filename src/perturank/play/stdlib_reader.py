"""A program of its own: imports the standard library module by module and writes what it documents, as JSON lines.

`corpus` starts it alone (`python -I -S stdlib_reader.py`), since importing everything has side effects that no
server should have; it imports nothing but the standard library itself.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import pkgutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, TextIO

# They open windows, browsers or a poem, run tests, or are not the library itself.
LEFT_OUT = frozenset({"antigravity", "this", "idlelib", "turtledemo", "test", "tests", "ensurepip", "lib2to3", "pip"})
RENAMED = {"posixpath": "os.path"} if os.name == "posix" else {"ntpath": "os.path"}
MOST_CHARACTERS = 4000  # of a docstring: the longest are whole tutorials


def module_names() -> list[str]:
    """Return the names of all public modules, packages before what is in them."""
    found = []
    for name in sorted(sys.stdlib_module_names):
        if not name.startswith("_") and name not in LEFT_OUT:
            spec = importlib.util.find_spec(name)
            folders = None if spec is None else spec.submodule_search_locations
            found += [name, *submodules(name, folders or [])]
    return found


def submodules(package: str, folders: Sequence[str]) -> Iterator[str]:
    """Yield a package's public modules, found on the disk without importing them."""
    for folder in folders:
        for info in pkgutil.iter_modules([folder]):
            if not info.name.startswith("_") and info.name not in LEFT_OUT:
                yield f"{package}.{info.name}"
                if info.ispkg:
                    yield from submodules(f"{package}.{info.name}", [os.path.join(folder, info.name)])


def import_module(name: str) -> ModuleType | None:
    """Import a module and return it; None where this machine cannot import it."""
    try:
        return importlib.import_module(name)
    except BaseException:  # some modules leave the interpreter where their platform is missing
        return None


def public_members(module: ModuleType) -> Iterator[tuple[str, Any, bool]]:
    """Yield a module's own public classes and functions: name, object, and whether the module exports it by name."""
    exported = getattr(module, "__all__", None)
    for name in sorted(vars(module) if exported is None else exported):
        found = getattr(module, name, None)  # some modules make what they export when it is first asked for
        if name.startswith("_") or not (inspect.isclass(found) or inspect.isroutine(found)):
            continue
        if exported is not None or getattr(found, "__module__", None) == module.__name__:
            yield name, found, exported is not None


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods that a class itself defines."""
    for name, found in sorted(vars(kind).items()):
        inner = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        if not name.startswith("_") and inspect.isroutine(inner):
            yield name, inner


def signature(found: Any) -> str:
    """Return the parameters as they are written; empty where Python does not know them."""
    try:
        return str(inspect.signature(found))
    except (TypeError, ValueError):
        return ""


def text(found: Any) -> str:
    """Return an object's own docstring, not one that it inherits."""
    own = found.__dict__.get("__doc__") if inspect.isclass(found) else getattr(found, "__doc__", None)
    return inspect.cleandoc(own)[:MOST_CHARACTERS] if isinstance(own, str) else ""


def documents(module: ModuleType, seen: dict[int, str]) -> Iterator[dict[str, Any]]:
    """Yield what a module documents; an object belongs to the first module that shows it."""
    where = RENAMED.get(module.__name__, module.__name__)
    yield describe(where, "", "module", module, True)
    for name, found, exported in public_members(module):
        if id(found) in seen:
            continue
        seen[id(found)] = where
        yield describe(where, name, "class" if inspect.isclass(found) else "function", found, exported)
        if inspect.isclass(found):
            for inner, method in methods(found):
                yield describe(where, f"{name}.{inner}", "method", method, exported)


def describe(module: str, name: str, kind: str, found: Any, exported: bool) -> dict[str, Any]:
    """Return an object as a document, but for what other modules make of it."""
    return {
        "module": module,
        "name": name,
        "kind": kind,
        "signature": "" if kind == "module" else signature(found),
        "text": text(found),
        "exported": exported,
    }


def by_priority(names: list[str]) -> list[str]:
    """Return the modules in the order in which they may claim an object: built in, then short names first."""
    return sorted(names, key=lambda name: (name != "builtins", name.count("."), len(name), name))


def write_documents(out: TextIO) -> None:
    """Write one line a module: its documents, the file of its source, how many are done and of how many."""
    warnings.simplefilter("ignore")
    names = by_priority(module_names())
    seen: dict[int, str] = {}
    for done, name in enumerate(names, 1):
        module = import_module(name)
        found = [] if module is None else [each for each in documents(module, seen) if each["text"]]
        source = getattr(module, "__file__", None)
        line = {"module": RENAMED.get(name, name), "source": source, "documents": found, "done": done, "of": len(names)}
        out.write(json.dumps(line) + "\n")
        out.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as lines:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a module prints on import is none of our lines
        write_documents(lines)
        lines.flush()
        os._exit(0)  # without what modules have registered for the end
