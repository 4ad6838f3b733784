"""What a format is: how a formula is written in it, and how a search engine is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from perturank.errors import BadInput
from perturank.exports.formula import Formula

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Request(NamedTuple):
    """A request that installs something; `also` are statuses that are fine beside 2xx."""

    method: str
    path: str
    body: Any = None
    also: tuple[int, ...] = ()


@dataclass(frozen=True)
class Format:
    """A format by name.

    `write(name, formula, sources)` returns files by their names, JSON values or bytes. `install(name, files, replace)`
    returns the requests that install them in an engine, and `check(name)` one that shows that they are there.
    A format without features of the engine's own takes the prior under `default_prior` where nobody names it.
    """

    name: str
    summary: str
    write: Callable[[str, Formula, Mapping[str, Any]], dict[str, Any]]
    default_prior: str | None = None
    media_type: str = "application/json"
    install: Callable[[str, Mapping[str, Any], bool], list[Request]] | None = None
    check: Callable[[str], Request] | None = None


def check_names(formula: Formula, engine: str) -> None:
    """Refuse names of features that an expression of an engine cannot hold."""
    odd = next((column.name for column in formula.columns if not IDENTIFIER.fullmatch(column.name)), None)
    if odd is not None:
        raise BadInput(
            f"{engine} cannot name a feature {odd!r}", "rename it, or give other names: letters, digits and _"
        )
