"""Past lists that the tests of imports share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers.service_small import PLACES, rows
from perturank.service.history.files import import_lists, lists_in
from perturank.service.history.report import ImportReport
from perturank.service.log import Log
from perturank.service.log.counters import TOTAL, summary


def line(number: int, n: int = PLACES, **changes: Any) -> dict[str, Any]:
    """Return a past list of n documents, one of which was clicked."""
    documents = [
        {"id": f"d{number}-{i}", "features": row} for i, row in enumerate(rows(n, seed=number).round(4).tolist())
    ]
    return {"query_id": f"q{number}", "documents": documents, "clicks": [f"d{number}-{number % n}"]} | changes


def written(folder: Path, lines: Sequence[Any], name: str = "clicks.jsonl") -> Path:
    """Write lines to a file; text goes in as it is."""
    path = folder / name
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines))
    return path


def imported(log: Log, path: Path, **options: Any) -> ImportReport:
    """Import a file into the model m."""
    return import_lists(log, "m", lists_in(path), **options)


def totals(log: Log, model: str = "m") -> dict[str, Any]:
    """Return what the service has counted."""
    (row,) = log.counters((TOTAL,), model=model)
    return summary(row.amounts)
