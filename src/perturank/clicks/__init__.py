"""Simulated users, found by name.

A file of this folder with `PUBLISHED` (name -> maker, summary) adds named users; with `MODELS`
(name -> function of tables) it adds a model that can be given tables of one's own, as text

    dcm:click=0,.5,1;stop=0,0,0;rule=clicked
    pbm:click=.1,1;eta=2

or as a TOML or JSON file: `model = "dcm"`, `click = [0, 0.5, 1]`, `stop = [0, 0, 0]`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import pkgutil
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from perturank.core import ClickModel
from perturank.errors import BadInput, unknown

__all__ = ["user", "users"]


def users() -> dict[str, str]:
    """Return the name and one-line summary of every user."""
    return {name: summary for name, (_, summary) in sorted(_published().items())}


def user(name: str, n_grades: int, stop: str = "examined") -> ClickModel:
    """Return the user of this name, specification or file, for a data set of n_grades grades.

    >>> user("navigational", 3).spec
    'dcm:click=0.05,0.5,0.95;stop=0.2,0.5,0.9;rule=examined'
    >>> user("dcm:click=0,1;stop=0,.5", 2, stop="clicked").spec
    'dcm:click=0,1;stop=0,0.5;rule=clicked'
    """
    if Path(name).suffix in (".toml", ".json"):
        return _own(_read(Path(name)), n_grades, stop)
    if ":" in name:
        return _own(_parsed(name), n_grades, stop)
    published = _published()
    if name not in published:
        raise unknown("user", name, published)
    return published[name][0](n_grades, stop=stop)


@functools.cache
def _modules() -> tuple[ModuleType, ...]:
    return tuple(importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))


def _published() -> dict[str, tuple[Callable[..., ClickModel], str]]:
    return {name: entry for module in _modules() for name, entry in getattr(module, "PUBLISHED", {}).items()}


def _models() -> dict[str, Callable[..., ClickModel]]:
    return {name: model for module in _modules() for name, model in getattr(module, "MODELS", {}).items()}


def _own(table: Mapping[str, Any], n_grades: int, stop: str) -> ClickModel:
    """Return the user of a table of one's own; it must know every grade of the data."""
    fields = dict(table)
    name = str(fields.pop("model", ""))
    models = _models()
    if name not in models:
        raise unknown("click model", name, models)
    known = inspect.signature(models[name]).parameters
    for field in fields:
        if field not in known:
            raise unknown(f"entry of a {name} table", field, known)
    for field, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and field not in fields:
            raise BadInput(f"the {name} table has no {field!r}", f"it needs a list such as {field}=0,.5,1")
    if "rule" in known:
        fields.setdefault("rule", stop)
    model = models[name](**fields)
    model.check(range(n_grades))
    return model


def _parsed(text: str) -> dict[str, Any]:
    """Return the table written as model:field=values;field=values."""
    model, _, rest = text.partition(":")
    table: dict[str, Any] = {"model": model.strip()}
    for part in filter(None, (part.strip() for part in rest.split(";"))):
        field, equals, values = part.partition("=")
        if not equals:
            raise BadInput(f"{part!r} in the user {text!r} has no '='", "write dcm:click=0,.5,1;stop=0,0,0")
        table[field.strip()] = _values(values.strip())
    return table


def _values(text: str) -> Any:
    """Return a list of numbers if there is a comma, one number if it is one, else the text."""
    try:
        return [float(part) for part in text.split(",")] if "," in text else float(text)
    except ValueError:
        return text


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"the user's table {str(path)!r} cannot be read", error.strerror or "") from None
    try:
        table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise BadInput(f"the user's table {str(path)!r} is not {path.suffix[1:].upper()}", str(error)) from None
    if not isinstance(table, dict) or "model" not in table:
        raise BadInput(f"the user's table {str(path)!r} names no model", 'it needs a line such as model = "dcm"')
    return table
