"""Past lists that the tests of imports share."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from helpers.service_small import PLACES, rows
from perturank.service.history.files import import_lists, lists_in
from perturank.service.history.report import ImportReport
from perturank.service.log import Log, open_log
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


class OldClicks:
    """Files of past lists, each imported into the model m by a process of its own while other things are killed."""

    def __init__(self, folder: Path, log: str, n_files: int, lists: Sequence[dict[str, Any]]) -> None:
        self._log, self._sizes = log, dict[Path, int]()
        self.queries = [each["query_id"] for each in lists]
        for n in range(n_files):
            some = lists[n::n_files]
            self._sizes[written(folder, some, f"clicks-{n}.jsonl")] = len(some)
        self._waiting = list(self._sizes)
        self._process: subprocess.Popen[bytes] | None = None
        self.n_acknowledged = self.n_killed = 0

    def start(self) -> None:
        """Begin with the next file, if there is one and none is being imported."""
        if self._process is None and self._waiting:
            program = [sys.executable, "-c", "from perturank.cli import main; main()", "import"]
            command = [*program, str(self._waiting[0]), "--log", self._log, "--model", "m"]
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self, *, kill: bool) -> None:
        """Kill the process or wait for it; a file that was not acknowledged is imported again."""
        if self._process is None:
            return
        if kill:
            self._process.kill()
        self.n_killed += kill
        if self._process.wait() == 0:
            self.n_acknowledged += self._sizes[self._waiting.pop(0)]
        else:
            random.shuffle(self._waiting)
        self._process = None

    def finish(self) -> None:
        """Import what is left; then importing everything again changes nothing."""
        self.end(kill=False)
        with closing(open_log(self._log)) as log:
            for path in self._waiting:
                report = imported(log, path)
                assert report.imported + report.known == report.read == self._sizes[path], report
            tail = log.tail()
            for path, n in self._sizes.items():
                again = imported(log, path)
                assert (again.read, again.imported, again.known) == (n, 0, n), again
            assert log.tail() == tail
        self._waiting, self.n_acknowledged = [], sum(self._sizes.values())
