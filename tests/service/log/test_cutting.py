"""A -wal file cut at any byte, in what a process leaves that is killed at any moment, also while it merges."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from clicking import Say

from perturank.service.log.sqlite import SqliteLog
from perturank.service.log.wal import extent

WRITER = """
import pathlib, sys
from perturank.service.entries import Pinned
from perturank.service.log import checkpointing
from perturank.service.log.sqlite import SqliteLog
checkpointing.PAGES_TO_MERGE = int(sys.argv[2])
log = SqliteLog(pathlib.Path(sys.argv[1]))
while True:
    with log.transaction() as transaction:
        position = transaction.append('m', Pinned(1))
        for name in ('a', 'b', str(position % 50)):
            transaction.store(name, position.to_bytes(16_000, 'big'))
    print(position, flush=True)
"""
ENDS = ("", "-wal", "-merging")


@dataclass
class Writing:
    """A process that writes a log, and merges it, without a pause."""

    process: subprocess.Popen[str]
    path: Path
    last: int = 0  # position that it has said

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.last = int(line)

    @contextmanager
    def stopped(self, while_merging: bool) -> Iterator[None]:
        """Stop it wherever it is, between two instructions; what it has asked of the disk is done."""
        while while_merging and not self.path.with_name("log.db-merging").exists():
            assert self.process.poll() is None
        self.process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        while any((task / "stat").read_text().rsplit(")", 1)[1].split()[0] != "T" for task in tasks.iterdir()):
            time.sleep(0.001)
        yield
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def writing(path: Path, pages_to_merge: int) -> Iterator[Writing]:
    command = [sys.executable, "-c", WRITER, str(path), str(pages_to_merge)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        found = Writing(process, path)
        listener = threading.Thread(target=found.listen)
        listener.start()
        try:
            while found.last < 10:
                assert process.poll() is None
                time.sleep(0.01)
            yield found
        finally:
            process.kill()
            listener.join()


def must_be_whole(path: Path, least: int, most: int | None) -> int:
    """See that the log opens at some transaction between these, and holds all of it and nothing later; return which."""
    with closing(SqliteLog(path)) as log:
        assert log._connection().execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tail = log.tail()
        assert least <= tail
        assert most is None or tail <= most
        assert [record.position for record in log.read()] == list(range(1, tail + 1))
        if tail:
            newest = {str(position % 50): position for position in range(max(1, tail - 49), tail + 1)}
            expected = newest | {"a": tail, "b": tail}
            assert {name: log.stored(name) for name in log.names("")} == {
                name: position.to_bytes(16_000, "big") for name, position in expected.items()
            }
    return tail


def last_whole(wal: Path) -> int:
    """Return the position of the last whole transaction: each is counted, and the first made the tables."""
    found = extent(wal)
    return 0 if found is None or found.counts is None else found.counts[1] - 1


def must_survive(stopped: Writing, chance: random.Random, n_cuts: int) -> bool:
    """Cut what a stopped process would leave if it were killed; return whether it is merging."""
    folder, cut = stopped.path.parent, stopped.path.parent / "cut"
    left = {end: file.read_bytes() for end in ENDS if (file := folder / f"log.db{end}").exists()}
    n_bytes = len(left["-wal"])

    def must_open(n: int, least: int, most: int | None) -> int:
        shutil.rmtree(cut, ignore_errors=True)
        cut.mkdir()
        for end, content in (left | {"-wal": left["-wal"][:n]}).items():
            (cut / f"log.db{end}").write_bytes(content)
        return must_be_whole(cut / "log.db", max(least, last_whole(cut / "log.db-wal")), most)

    most = must_open(n_bytes, stopped.last, None)  # uncut it has all that was said, if not more
    for n in (0, *(chance.randrange(n_bytes + 1) for _ in range(n_cuts - 1))):
        must_open(n, 0, most)
    return "-merging" in left


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc").exists(), reason="whether a process is stopped is told by /proc alone")
def test_a_wal_cut_at_any_byte_at_any_moment_opens_at_the_last_whole_transaction_or_later(
    tmp_path: Path, is_long: bool, say: Say
) -> None:
    chance, n_stops, n_cuts = random.Random(3), 150 if is_long else 8, 10 if is_long else 5
    n_while_merged = 0
    for pages_to_merge in (5, 1000):
        folder = tmp_path / str(pages_to_merge)
        folder.mkdir()
        with writing(folder / "log.db", pages_to_merge) as writer:
            for stop in range(n_stops):
                time.sleep(chance.uniform(0, 0.03))
                with writer.stopped(while_merging=stop % 2 == 1):
                    n_while_merged += must_survive(writer, chance, n_cuts)
    assert n_while_merged
    say(f"{2 * n_stops} moments, {n_while_merged} of them within a merge, each with {n_cuts} cuts: all whole")
