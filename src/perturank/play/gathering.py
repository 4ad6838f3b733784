"""A program of its own: imports the standard library module by module and writes what it documents, as JSON lines.

It is started alone (`python -I -S gathering.py`), since importing everything has side effects that no
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
from collections.abc import Iterator
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
            found += [name, *_inside(name)]
    return found


def _inside(package: str) -> Iterator[str]:
    """Yield a package's public modules, found on the disk without importing them."""
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        for info in pkgutil.iter_modules([place]):
            if not info.name.startswith("_") and info.name not in LEFT_OUT:
                yield f"{package}.{info.name}"
                if info.ispkg:
                    yield from _inside_folder(f"{package}.{info.name}", os.path.join(place, info.name))


def _inside_folder(package: str, folder: str) -> Iterator[str]:
    for info in pkgutil.iter_modules([folder]):
        if not info.name.startswith("_") and info.name not in LEFT_OUT:
            yield f"{package}.{info.name}"


def imported(name: str) -> ModuleType | None:
    """Return the module; None where this machine cannot import it."""
    try:
        return importlib.import_module(name)
    except BaseException:  # some modules leave the interpreter where their platform is missing
        return None


def public(module: ModuleType) -> Iterator[tuple[str, Any, bool]]:
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
    """Yield what a module documents; an object that another module has shown already is left to that one."""
    where = RENAMED.get(module.__name__, module.__name__)
    yield _document(where, "", "module", module, True)
    for name, found, exported in public(module):
        if id(found) in seen:
            continue
        seen[id(found)] = where
        yield _document(where, name, "class" if inspect.isclass(found) else "function", found, exported)
        if inspect.isclass(found):
            for inner, method in methods(found):
                yield _document(where, f"{name}.{inner}", "method", method, exported)


def _document(module: str, name: str, kind: str, found: Any, exported: bool) -> dict[str, Any]:
    parameters = "" if kind == "module" else signature(found)
    return {
        "module": module,
        "name": name,
        "kind": kind,
        "signature": parameters,
        "text": text(found),
        "exported": exported,
    }


def home_first(names: list[str]) -> list[str]:
    """Return the modules in the order in which they may claim an object: built in, then short names first."""
    return sorted(names, key=lambda name: (name != "builtins", name.count("."), len(name), name))


def main(out: TextIO) -> None:
    """Write one line a module: its documents, the file of its source, how many are done and of how many."""
    warnings.simplefilter("ignore")
    names = home_first(module_names())
    seen: dict[int, str] = {}
    for done, name in enumerate(names, 1):
        module = imported(name)
        found = [] if module is None else [each for each in documents(module, seen) if each["text"]]
        source = getattr(module, "__file__", None)
        line = {"module": RENAMED.get(name, name), "source": source, "documents": found, "done": done, "of": len(names)}
        out.write(json.dumps(line) + "\n")
        out.flush()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as lines:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a module prints on import is none of our lines
        main(lines)
        lines.flush()
        os._exit(0)  # without what modules have registered for the end
