"""What a live test costs a service: `python -m benchmarks.live_test_cost`.

Processor time of a list through a test of two arms beside a plain one; how long it takes to count lists, and to tell
the standing of a test after so many of them.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from benchmarks.service import running_service
from perturank.service.log import live_tests, verdicts
from perturank.service.log.records import Changed, Drafted, Impression, LiveTestChanged, new_id
from perturank.service.log.spec import checked_spec
from perturank.service.log.sqlite import SqliteLog
from perturank.wire.live_tests import LiveTest
from perturank.wire.specification import SpecRequest

N_DOCUMENTS, N_FEATURES = 50, 20
LISTS, BLOCKS = 300, 7  # of each kind, in turn; the first block warms up
COUNTED = (1_000, 100_000)
AT_ONCE = 500  # lists whose windows close together
IDS = [f"document {i}" for i in range(10)]
TESTS = {
    "interleaved, learns own": {"learns": "own"},
    "interleaved, learns all": {"learns": "all"},
    "interleaved, learns none": {"learns": "none"},
    "split": {"method": "split"},
}


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has used."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def cost_of_lists() -> dict[str, float]:
    """Return milliseconds of processor time for a list of each kind, the median over blocks."""
    rows = np.random.default_rng(0).normal(size=(N_DOCUMENTS, N_FEATURES)).round(4).tolist()
    body = json.dumps({"documents": [{"id": f"d{i}", "features": row, "prior": -i} for i, row in enumerate(rows)]})
    with running_service(None, 64) as (url, process), httpx.Client(base_url=url, timeout=300) as http:
        for model in ("a", "b"):
            http.put(f"/v1/models/{model}", json={"n_features": N_FEATURES}).raise_for_status()
        paths = {"plain": "/v1/models/a/rank"}
        for i, (name, spec) in enumerate(TESTS.items()):
            http.put(f"/v1/tests/t{i}", json={"arms": ["a", "b"], **spec}).raise_for_status()
            paths[name] = f"/v1/tests/t{i}/rank"
        while http.get("/readyz").json()["status"] != "ready":
            time.sleep(0.2)
        found: dict[str, list[float]] = {name: [] for name in paths}
        for _ in range(BLOCKS):
            for name, path in paths.items():
                began = processor_seconds(process)
                for _ in range(LISTS):
                    http.post(path, content=body).raise_for_status()
                found[name].append((processor_seconds(process) - began) / LISTS * 1000)
        return {name: statistics.median(values[1:]) for name, values in found.items()}


def cost_of_counting(folder: Path, n: int) -> tuple[float, float]:
    """Return milliseconds to count a list, and to tell the standing after n of them."""
    log = SqliteLog(folder / f"{n}.db")
    with log.transaction() as transaction:
        transaction.append("m", Changed(0, checked_spec(SpecRequest(n_features=5, ranker="p2linrank"))))
        live_tests.put(transaction, "t", LiveTest(("m", "own"), actions={"click": 1.0}, window=60.0))
    since, seconds = log.newest(live_tests.stream("t"), LiveTestChanged, 1)[0].position, 0.0
    drafted = Drafted([0, 1] * 5, [since, 1, 0], [0, 0], True, [])
    for _ in range(0, n, AT_ONCE):
        with log.transaction() as transaction:
            for _ in range(AT_ONCE):
                entry = Impression(0, 0, "test", IDS, None, b"", drafted=drafted)
                transaction.append(live_tests.stream("t"), entry, new_id(log.tail()))
        began = time.perf_counter()
        act = live_tests.closing(log, "t", log.tail())
        with log.transaction() as transaction:
            act(transaction)
        seconds += time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(20):
        verdicts.told(log, "t", live_tests.required(log, "t"))
    told = (time.perf_counter() - began) / 20
    log.close()
    return seconds / n * 1000, told * 1000


def main() -> None:
    """Print both tables, as Markdown."""
    lists = cost_of_lists()
    print("| list | processor ms | of a plain one |\n|---|---|---|")
    for name, cost in lists.items():
        print(f"| {name} | {cost:.2f} | {cost / lists['plain']:.2f} |")
    print("\n| lists | ms to count one | ms to tell the standing |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for n in COUNTED:
            counting, telling = cost_of_counting(Path(folder), n)
            print(f"| {n:,} | {counting:.3f} | {telling:.2f} |")


if __name__ == "__main__":
    main()
