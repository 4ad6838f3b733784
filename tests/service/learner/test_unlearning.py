from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.service_small import (
    IDS,
    NOTHING,
    append,
    bits,
    created,
    forget_state,
    impression,
    n_impressions,
    shown,
    spec,
    versions,
)

from perturank.service.learner import retention
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import matches_stored, rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Log, changes, erasure, snapshots
from perturank.service.log.feedback import close_windows, record_feedback, settle
from perturank.service.log.generations import generations
from perturank.service.log.records import Batch, Changed, Deleted, Event, Impression, Pinned, Scaled, Snapshot
from perturank.service.log.refusals import Contradiction, NotKnown
from perturank.service.log.sqlite import SqliteLog

ALICE = "alice@example.org"
SOURCES = [ALICE, "bob", None, "carol", "bob", ALICE, "bob"]
KIND: dict[str, Any] = {"ranker": "p2linrank", "scaling": "auto", "cap": 5}


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Log]:
    """Return the log that never holds Alice."""
    opened = SqliteLog(tmp_path / "other.db")
    yield opened
    opened.close()


def live(log: Log, turns: range, learner: Learner | None = None, *, without: str = "") -> None:
    """Show seven lists in each turn, with clicks, purchases, places seen and windows; learn after each."""
    for turn in turns:
        settled, middle = [], 0
        for i, source in enumerate(SOURCES):
            if source == without:
                continue
            name = shown(log, impression(7 * turn + i, source=source, mode=["learn", "own", "shadow"][i % 3]))
            settled += [name] * (i % 2 == 0)
            middle = log.tail() if i == 3 else middle
            with log.transaction() as transaction:
                bought = [Event(IDS[(turn + i) % 4], "purchase")] if i % 2 else []
                clicks = [IDS[i % 4]]
                record_feedback(transaction, "m", name, clicks, i == 3, events=bought, seen=4 * (i == 2))
        with log.transaction() as transaction:
            settle(transaction, "m", settled)
            if turn % 2:
                close_windows(transaction, "m", middle)
        if learner is not None:
            learner.step()


def tidied(learner: Learner) -> None:
    while learner.step() or not learner.is_tidy:
        pass


def unlearned(log: Log, learner: Learner) -> None:
    retention.request_erasure(log, ALICE, unlearn=True)
    tidied(learner)


def learned_anew(log: Log) -> bytes:
    """Return the bits of a learner that begins with this log."""
    learner = Learner(log)
    tidied(learner)
    return bits(learner)


def sources(log: Log) -> set[str | None]:
    return {record.entry.source for record in log.read() if isinstance(record.entry, Impression)}


@pytest.mark.parametrize("changes", [{}, {"batch": 4}, {"settings": {"memory": 32}}], ids=["all", "fixed", "memory"])
def test_the_bits_are_those_of_a_log_that_never_held_the_source(
    either: Log, other: Log, changes: dict[str, Any]
) -> None:
    for log in (either, other):
        created(log, **KIND | changes)
    learner = Learner(either)
    live(either, range(6), learner)
    live(other, range(6), without=ALICE)
    before, n = bits(learner), len(versions(either))
    skipped = [record.entry.skipped for record in either.all_of("m", Batch) if isinstance(record.entry, Batch)]
    assert n > 3
    assert sum(map(len, skipped)) > 3
    unlearned(either, learner)
    assert bits(learner) != before
    assert bits(learner) == learned_anew(other)
    assert sources(either) == {"bob", "carol", None}
    assert list(faults(either)) == []
    assert len(versions(either)) == n + 1  # none of them with half of it
    report = rebuild(either, "m")
    assert (report.checked, report.differs) == (1, None)
    assert matches_stored(either, report)
    live(either, range(6, 8), learner)  # she may come back
    assert ALICE in sources(either)
    assert rebuild(either, "m").differs is None
    forget_state(either)
    again = Learner(either)
    tidied(again)
    assert bits(again) == bits(learner)
