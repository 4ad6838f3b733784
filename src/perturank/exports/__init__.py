"""Rankers in the formats of other systems: one file for each family of formats, with its list `FORMATS`."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perturank import storage
from perturank.core import Ranker
from perturank.errors import BadInput, unknown
from perturank.exports.format import Format, Request
from perturank.exports.formula import Formula, formula_of

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")  # it becomes part of an address


@cache
def formats() -> dict[str, Format]:
    """Return every format by its name."""
    modules = [importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    found = [each for module in modules for each in getattr(module, "FORMATS", ())]
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def format_named(name: str) -> Format:
    """Return the format of this name; an unknown one is refused with the nearest."""
    if name not in formats():
        raise unknown("format", name, formats())
    return formats()[name]


@dataclass(frozen=True)
class Export:
    """A ranker in the format of another system: files by their names, JSON values or bytes."""

    format: Format
    name: str
    files: Mapping[str, Any]

    def save(self, folder: str | Path = ".", *, overwrite: bool = True) -> list[Path]:
        """Write the files into a folder and return their paths; each appears whole or not at all.

        Formats share names such as model.json. Without `overwrite`, a file with other content is refused.
        """
        contents = {
            Path(folder) / file: content if isinstance(content, bytes) else _json(content) + b"\n"
            for file, content in self.files.items()
        }
        for path, content in contents.items():
            if not overwrite and path.exists() and path.read_bytes() != content:
                raise BadInput(f"{path} is there already, with other content", "choose another --out, or add --force")
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            storage.put(path, content)
        return list(contents)

    @property
    def document(self) -> bytes:
        """All of it as one: the only file, or a JSON object of all files by their names."""
        if len(self.files) > 1:
            return _json(dict(self.files))
        (content,) = self.files.values()
        return content if isinstance(content, bytes) else _json(content)

    def requests(self, *, replace: bool = False) -> list[Request]:
        """Return what is sent to the engine to install it; `replace`: in place of a model of this name."""
        if self.format.install is None:
            engines = ", ".join(name for name, each in formats().items() if each.install is not None)
            raise BadInput(f"{self.format.name} is no search engine", f"push goes to {engines}")
        return self.format.install(self.name, self.files, replace)


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def export(
    ranker: Ranker,
    format: str,
    *,
    name: str = "perturank",
    names: Sequence[str] | None = None,
    prior: str | None = None,
    sources: Mapping[str, Any] | None = None,
) -> Export:
    """Return the ranker's best estimate in the format of another system.

    `name` is what the model is called there, `names` are the features' names where the ranker knows none. `prior` names
    the feature that holds the caller's own score. `sources` say how a search engine computes features: a query for
    Elasticsearch and OpenSearch, a function for Solr; a feature without a source is the field of its name.
    What the format cannot express is refused with the reason.
    """
    wanted = format_named(format)
    formula = formula_of(ranker, names=names, prior=prior, default_prior=wanted.default_prior)
    return export_formula(formula, wanted, name=name, sources=sources)


def check_scaling(scaling: str | None) -> None:
    """Refuse a model of the service whose features are scaled within each list."""
    if scaling == "query":
        raise BadInput(
            "scaling is query: features are scaled within each list, which no formula of single documents can do",
            "let a model with scaling auto learn",
        )


def export_formula(
    formula: Formula, format: Format, *, name: str = "perturank", sources: Mapping[str, Any] | None = None
) -> Export:
    """Return a formula in a format."""
    if not NAME.fullmatch(name):
        raise BadInput(f"{name[:80]!r} is no name of a model", "use letters, digits, dot, dash and underscore")
    strange = sorted(set(sources or {}) - {column.name for column in formula.columns})
    if strange:
        raise unknown("feature", strange[0], [column.name for column in formula.columns])
    return Export(format, name, format.write(name, formula, sources or {}))
