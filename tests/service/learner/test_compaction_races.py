"""Compactions that are interrupted, killed, or beside which others read, learn and compact."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.compaction import anybody, compact_all, promote_state
from helpers.service_small import (
    NOTHING,
    bits,
    closed,
    created,
    learned,
    lived,
    n_impressions,
    spec,
)

from perturank.service.learner import learner as learning
from perturank.service.learner import retention
from perturank.service.learner.checkpoint import base_of
from perturank.service.learner.lead import Lead, Superseded
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import matches_stored, rebuild, rebuild_version, retry_if_compacted
from perturank.service.learner.retention import Guard
from perturank.service.learner.state import State
from perturank.service.learner.states import States
from perturank.service.learner.verify import faults
from perturank.service.log import Log, snapshots, sql
from perturank.service.log.records import Compacted, Record, RolledBack
from perturank.service.log.refusals import NotReady
from perturank.service.log.sqlite import SqliteLog
from perturank.service.settings import Retention


def test_a_deletion_that_is_interrupted_loses_nothing_and_is_finished_later(
    either: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    created(either)
    learner = learned(either, spec(), 3)
    learner.close()
    assert promote_state(either) is not None
    for n_pages in range(3):  # killed before the first page, after one, after two
        for _ in zip(range(n_pages), retention.delete(either, "m", anybody), strict=False):
            pass
        assert list(faults(either)) == []
        assert rebuild(either, "m").differs is None
    assert n_impressions(either) > 0
    other = Learner(either)
    while other.step() or not other.is_tidy:
        pass
    assert n_impressions(either) == 0
    assert bits(other) == bits(learner)


def once_at(position: int, do: Callable[[], object]) -> Callable[[int], None]:
    """Return what does this when a reader comes to a position for the first time."""
    todo = [do]

    def on_record(at: int) -> None:
        if at >= position and todo:
            todo.pop()()

    return on_record


def test_a_replay_during_a_compaction_begins_again_at_the_new_base(
    either: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "PAGE", 5)
    created(either)
    learned(either, spec(), 4)
    for position in (1, 6, 13, 20):
        lived(either, spec(), 3, position)
        Learner(either).step()
        base = base_of(either, "m")
        begins = base.at + position if base is not None else position
        report = rebuild(either, "m", on_record=once_at(begins, lambda: compact_all(either, Retention(impressions=3))))
        assert (report.differs, report.begins) == (None, base_of(either, "m").at)  # type: ignore[union-attr]
        assert matches_stored(either, report)


def test_a_version_is_rebuilt_and_a_base_laid_though_another_is_laid_meanwhile(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(log, ranker="p2linrank")
    learner = learned(log, spec("p2linrank"), 3)
    taken = State.take
    break_in = [once_at(6, lambda: compact_all(log, Retention(impressions=3)))]

    def take(state: State, record: Record) -> None:
        taken(state, record)
        break_in[0](record.position)

    monkeypatch.setattr(State, "take", take)
    assert snapshots.digest(rebuild_version(log, "m", 3), whole=True) == bits(learner)
    first = base_of(log, "m")
    assert first is not None
    lived(log, spec("p2linrank"), 6, 30)
    learner.step()
    break_in[0] = once_at(first.at + 6, lambda: compact_all(log, Retention(impressions=6)))
    assert retention.compact(log, "m", NOTHING) is not None
    assert rebuild(log, "m").differs is None


def test_a_log_that_is_compacted_without_end_is_not_read_without_end(log: Log) -> None:
    def read() -> None:
        with log.transaction() as transaction:
            transaction.append("m", Compacted(log.tail(), 0, 0, 0, b""))

    with pytest.raises(NotReady, match="again and again"):
        retry_if_compacted(log, "m", read)


@pytest.mark.parametrize("position", [2, 9, 17, 30])
def test_a_learner_under_which_records_are_taken_out_begins_again(
    log: Log, position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "PAGE", 5)
    created(log)
    first = learned(log, spec(), 6)
    break_in = once_at(position, lambda: compact_all(log, Retention(impressions=3)))

    def is_over() -> bool:
        break_in(second.position)
        return False

    second = Learner(log, is_over=is_over)
    assert second.position == 0
    with pytest.raises(NotReady, match="begin again"):
        second.step()
    third = Learner(log)
    third.catch_up()
    assert bits(third) == bits(first)


CHILD = """
import sys, time
from pathlib import Path
from perturank.service.log import snapshots
from perturank.service.learner import retention
from perturank.service.log.sqlite import SqliteLog

def held(transaction):
    if sys.argv[2] == "base":
        print("writing", flush=True)
        time.sleep(600)

retention.AT_ONCE = 3
log = SqliteLog(Path(sys.argv[1]))
retention.promote(log, "m", log.stored(snapshots.state_name("m")), 0, log.tail(), held)
for _ in retention.delete(log, "m", lambda transaction: None):
    print("page", flush=True)
    time.sleep(600 if sys.argv[2] == "deletion" else 0)
"""


@pytest.mark.kill
def test_killed_while_it_writes_the_base_or_deletes_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    created(log)
    learner = learned(log, spec(), 3)
    learner.close()
    for when, n_left in (("base", 9), ("deletion", 7), ("end", 0)):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path), when], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline()
        if when != "end":
            child.kill()
        child.communicate()
        assert n_impressions(log) == n_left
        assert list(faults(log)) == []
        report = rebuild(log, "m")
        assert (report.differs, report.begins > 0) == (None, when != "base")
        assert snapshots.digest(report.ranker, whole=True) == bits(learner)
    log.close()


def test_a_base_that_cannot_be_written_leaves_everything_as_it_was(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 1)
    learner.close()

    def fail(transaction: object) -> None:
        raise OSError

    with pytest.raises(OSError):
        promote_state(log, fail)
    assert base_of(log, "m") is None
    assert rebuild(log, "m").checked == 1


def test_a_roll_back_that_comes_meanwhile_stops_the_base(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 2)
    learner.close()
    with log.transaction() as transaction:
        transaction.append("m", RolledBack(1))
    assert promote_state(log) is None
    learner.step()
    assert rebuild(log, "m").differs is None


def test_one_that_has_lost_its_place_deletes_nothing_and_promotes_no_base(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(log)
    old = learned(log, spec(), 3)
    old.close()
    lead = Lead.take(log)
    states = States

    def meanwhile(log: Log, guard: Guard, is_busy: Callable[[State], bool]) -> States:
        with pytest.raises(Superseded):  # before the new one reads where it begins, nothing moves any more
            promote_state(log, lead.check)
        return states(log, guard, is_busy)

    monkeypatch.setattr(learning, "States", meanwhile)
    Learner(log)
    assert retention.compact(log, "m", NOTHING) is not None
    with pytest.raises(Superseded):
        old.step()
    assert n_impressions(log) == 9


def test_records_are_deleted_by_the_process_that_leads_alone(tmp_path: Path) -> None:
    log, leader = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "log.db")
    created(log)
    learner = learned(leader, spec(), 2)
    assert leader.try_to_lead()
    assert retention.compact(log, "m", NOTHING) is not None
    assert not retention.finish(log, {"m": 0}, 0)
    assert n_impressions(log) == 6
    while learner.step() or not learner.is_tidy:
        pass
    assert retention.finish(log, {"m": 0}, 0)
    assert n_impressions(log) == 0
    lived(log, spec(), 3, 20)
    closed(log)
    learner.step()
    leader.close()
    assert retention.compact(log, "m", NOTHING) is not None
    assert retention.finish(log, {"m": 0}, 0)  # nobody else leads
    assert n_impressions(log) == 0
    log.close()
