"""Features of documents that a log names by id alone: looked up in a table, or asked of a function."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from perturank.catalogue import import_module
from perturank.errors import BadInput
from perturank.service.history.files import opened, parquet_rows
from perturank.wire.requests import Document

OBJECT, QUERY, PRIOR, FEATURES = "object_id", "query", "prior", "features"  # columns; all others are features
ENDINGS = (".csv", ".jsonl", ".ndjson", ".parquet")

Known = Mapping[str, Any] | Sequence[float | None] | None  # features by name, with a prior or without; or in order
Resolver = Callable[[str | None, Sequence[str]], Sequence[Known]]  # a query as it was typed, and ids of documents


def resolver(given: str) -> Resolver:
    """Return the resolver that is a file of features, or `module:function`."""
    name = given.removesuffix(".gz")
    if name.endswith(ENDINGS):
        return FeatureTable.read(Path(given)).look_up
    module, _, function = given.partition(":")
    if not function:
        what = f"{given!r} is neither a file of features nor a function"
        raise BadInput(what, f"name a file that ends with {', '.join(ENDINGS)}, or module:function")
    found = getattr(import_module(module), function, None)
    if not callable(found):
        raise BadInput(f"the module {module} has no function {function!r}", "check the name behind the colon")

    def ask(query: str | None, ids: Sequence[str]) -> Sequence[Known]:
        rows = list(found(query, list(ids)))
        if len(rows) != len(ids):
            raise BadInput(
                f"{given} returned {len(rows)} rows for {len(ids)} documents", "return one for each, or None"
            )
        return rows

    return ask


class FeatureTable:
    """Features by document, or by query and document where the table has a column for queries."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str | None, str], Known] = {}

    @classmethod
    def read(cls, path: Path) -> FeatureTable:
        """Return the table of a file; refuse one without the column object_id, or with a value that is no number."""
        if not path.is_file():
            raise BadInput(f"there is no file {path}", "check the path of --features")
        table = cls()
        for where, row in _rows(path):
            if row.get(OBJECT) in (None, ""):
                raise BadInput(f"{path}, {where}: there is no object_id", f"a column {OBJECT!r} names the document")
            query = row.get(QUERY)
            table._rows[str(query) if query not in (None, "") else None, str(row[OBJECT])] = _known(row, path, where)
        return table

    def look_up(self, query: str | None, ids: Sequence[str]) -> list[Known]:
        """Return the features of these documents for a query; else those that hold for all queries; else None."""
        return [self._rows.get((query, each), self._rows.get((None, each))) for each in ids]


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a table by column, each with where it stands."""
    if path.suffix == ".parquet":
        for number, row in enumerate(parquet_rows(path), start=1):
            yield f"row {number}", row
        return
    with opened(path) as (lines, _):
        if path.name.removesuffix(".gz").endswith(".csv"):
            reader = csv.DictReader(io.TextIOWrapper(lines, "utf-8-sig", newline=""))
            for row in reader:
                yield f"line {reader.line_num}", row
            return
        for number, line in enumerate(lines, start=1):
            if line.isspace():
                continue
            try:
                yield f"line {number}", msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.MsgspecError as error:
                raise BadInput(f"{path}, line {number}: {error}", "write one JSON object a line") from None


def _known(row: Mapping[str, Any], path: Path, where: str) -> Known:
    """Return the features of a row; an empty cell is a missing value."""
    given = row.get(FEATURES)
    if given is not None:
        prior = {PRIOR: row[PRIOR]} if row.get(PRIOR) is not None else {}
        return {FEATURES: given} | prior
    values = {}
    for name, value in row.items():
        if name not in (OBJECT, QUERY):
            try:
                values[name] = None if value in (None, "") else float(value)
            except (TypeError, ValueError):
                what = f"{path}, {where}: {name!r} is {value!r}, which is no number"
                raise BadInput(what, f"every column but {OBJECT}, {QUERY} and {PRIOR} is a feature") from None
    return values


def document(name: str, known: Known, are_named: bool) -> Document | None:
    """Return a document with what is known of it; None: nothing is. `are_named`: the model's features have names."""
    if known is None:
        return None
    if not isinstance(known, Mapping):
        return Document(name, np.asarray(known, np.float64).tolist())
    prior = known.get(PRIOR)
    given = known.get(FEATURES)
    if given is None:
        features = {column: value for column, value in known.items() if column != PRIOR}
        given = features if are_named else list(features.values())
    return Document(name, given, prior)
