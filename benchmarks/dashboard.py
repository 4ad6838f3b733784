"""How long the dashboard's questions take over logs of different lengths: `python -m benchmarks.dashboard [LENGTH…]`.

The logs hold real impressions and feedback with the counters beside them, spread over thirty days.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import typer

from perturank.service.log import Transaction, counters
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import Changed, Impression, new_id
from perturank.service.log.spec import checked_spec
from perturank.service.log.sqlite import SqliteLog
from perturank.service.serving.overview import Overview
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings
from perturank.service.telemetry.prometheus import Metrics, Traffic
from perturank.wire.specification import SpecRequest

LENGTHS = (1_000, 100_000, 1_000_000)
TRANSACTIONS = 1_000  # in which each log is written, so that all have counters of the same minutes and hours
REPEATS = 50
DAYS = 30
IDS = [f"document {i}" for i in range(10)]


def filled(log: SqliteLog, n: int) -> None:
    """Write n impressions, each with a click, as if they had come over thirty days."""
    with log.transaction() as transaction:
        transaction.append("m", Changed(0, checked_spec(SpecRequest(n_features=5, ranker="p2linrank"))))
    entry = Impression(1, 0, "learn", IDS, -1.0, b"", agreed=b"\0\0\0\0", own_agreed=b"\0\0\0\0")
    amounts = counters.list_amounts(entry, [True, False] * 5)
    began = time.time_ns() // 1_000_000 - DAYS * 86_400_000
    at_once = max(1, n // TRANSACTIONS)
    for first in range(0, n, at_once):
        with log.transaction() as transaction:
            transaction.at = began + first * DAYS * 86_400_000 // n
            for i in range(first, min(first + at_once, n)):
                _shown(transaction, entry, amounts, IDS[i % 10])


def _shown(transaction: Transaction, entry: Impression, amounts: dict[str, float], clicked: str) -> None:
    name = new_id(0)
    transaction.append("m", entry, name)
    transaction.counters.add("m", amounts)
    record_feedback(transaction, "m", name, [clicked], True)


def median_of(ask: Callable[[], object]) -> float:
    """Return the median seconds of a question, of a core: others may use the machine meanwhile."""
    found = []
    for _ in range(REPEATS):
        began = time.process_time()
        ask()
        found.append(time.process_time() - began)
    return statistics.median(found)


def measured(folder: Path, n: int) -> str:
    """Return one line of the table."""
    log = SqliteLog(folder / f"{n}.db")
    filled(log, n)
    service = Service(log, ServeSettings(compile_first=False))
    overview, metrics = Overview(service, Traffic()), Metrics()
    questions: tuple[Callable[[], object], ...] = (
        lambda: Overview(service, Traffic()).now(),
        lambda: overview.history("m", "minutes"),
        lambda: overview.history("m", "hours"),
        lambda: overview.prometheus(metrics),
    )
    times = [f"{1000 * median_of(ask):.2f}" for ask in questions]
    rows = len(log.counters((0, 60, 3600)))
    service.close()
    log.close()
    return f"| {n:,} | {(folder / f'{n}.db').stat().st_size / 1e6:.0f} MB | {rows} | {' | '.join(times)} |"


def main() -> None:
    """Print a table: milliseconds of a core, medians."""
    lengths = [int(word) for word in sys.argv[1:]] or LENGTHS
    typer.echo(
        "| impressions | log | counters | overview | minutes | hours | /metrics |\n|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for n in lengths:
            typer.echo(measured(Path(folder), n))


if __name__ == "__main__":
    main()
