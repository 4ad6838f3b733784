"""`make bench-import`: old clicks into the log, and out of it into a model; in the library too."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.section import Column, Row, SectionResult
from benchmarks.timing import processor_seconds
from perturank import machine
from perturank.catalogue import make
from perturank.parts.past_lists import PastList
from perturank.service.history.files import import_file
from perturank.service.learner.learner import MOST_AT_ONCE, Learner
from perturank.service.log import changes, open_log
from perturank.service.log.spec import MEMORY, checked_spec
from perturank.wire.specification import SpecRequest

MODEL, RANKER = "bench", "p2linrank"
COLUMNS = (
    Column("lists_per_second", "lists/s", "rate"),
    Column("per_processor_second", "lists/processor s", "rate"),
    Column("bytes", "bytes/list", "size"),
)


@dataclass(frozen=True)
class Histories:
    """How many past lists there are, and how large they are."""

    lists: int = 50_000
    documents: int = 10
    features: int = 30
    log: str | None = None  # none: a new SQLite file

    @property
    def n_steps(self) -> int:
        """The number of parts."""
        return 4


def measure_imports(scale: Histories, advance: Callable[[str], None]) -> SectionResult:
    """Import a file, import it again, let a learner learn it, and let a ranker of the library learn as many lists."""
    began, rows = time.perf_counter(), dict[str, Row]()
    machine.look_for_garbage_seldom()  # as the command does
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "clicks.jsonl", scale.log or f"sqlite:///{folder}/bench.db"
        write_file(scale, path)
        _create_model(scale, log)
        for name in ("JSON lines into the log", "the same file again"):
            with _measured(rows, name, scale.lists):
                report = import_file(path, log=log, model=MODEL)
            rows[name].values["bytes"] = path.stat().st_size / scale.lists
            assert report.imported + report.known == scale.lists
            advance(name)
        _measure_learner(scale, log, rows)
        advance("out of the log, learned by the service")
    _measure_library(scale, rows)
    advance("learned by the library")
    title = f"{scale.lists:,} past lists of {scale.documents} documents × {scale.features} features, {RANKER}"
    return SectionResult("", title, COLUMNS, rows, time.perf_counter() - began, 0.0)


@contextmanager
def _measured(rows: dict[str, Row], name: str, n: int) -> Iterator[None]:
    began, used = time.perf_counter(), processor_seconds()
    yield
    seconds, used = time.perf_counter() - began, processor_seconds() - used
    rows[name] = Row({"lists_per_second": n / seconds, "per_processor_second": n / used})


def _lists(scale: Histories) -> Iterator[tuple[np.ndarray, int]]:
    """Yield features of five digits, and the place that was clicked."""
    rng = np.random.default_rng(0)
    for _ in range(scale.lists):
        yield rng.random((scale.documents, scale.features)).round(5), int(rng.integers(scale.documents))


def write_file(scale: Histories, path: Path) -> None:
    """Write the lists as JSON lines."""
    with path.open("w") as file:
        for number, (rows, clicked) in enumerate(_lists(scale)):
            documents = [{"id": f"d{number}-{i}", "features": row} for i, row in enumerate(rows.tolist())]
            past = {"query_id": f"query {number}", "documents": documents, "clicks": [f"d{number}-{clicked}"]}
            file.write(json.dumps(past) + "\n")


def _create_model(scale: Histories, log: str) -> None:
    spec = checked_spec(SpecRequest(n_features=scale.features, places=scale.documents, ranker=RANKER))
    with closing(open_log(log, create=True)) as opened, opened.transaction() as transaction:
        changes.put(transaction, MODEL, spec)


def _measure_learner(scale: Histories, log: str, rows: dict[str, Row]) -> None:
    """Let a learner learn everything; the first step, which compiles, is not measured."""
    with closing(open_log(log)) as opened:
        learner = Learner(opened)
        n = scale.lists - learner.step()
        with _measured(rows, "out of the log, learned by the service", n):
            while learner.step():
                pass
        assert learner.states[MODEL].learned == scale.lists
        learner.close()


def _measure_library(scale: Histories, rows: dict[str, Row]) -> None:
    lists = [PastList(features.astype(np.float32), [clicked]) for features, clicked in _lists(scale)]
    ranker: Any = make(RANKER, scale.features, memory=MEMORY)  # as a model of the service has it
    ranker = ranker.learn_from_lists(lists[:MOST_AT_ONCE])
    rest = lists[MOST_AT_ONCE:]
    with _measured(rows, "learned by the library", len(rest)):
        ranker.learn_from_lists(rest).has_overflowed().block_until_ready()
