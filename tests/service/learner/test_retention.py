from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from helpers.service_small import (
    NOTHING,
    append,
    bits,
    created,
    forget_state,
    impression,
    learned,
    lived,
    must_be_learned_anew,
    n_impressions,
    served,
    shown,
    spec,
)

from perturank.errors import BadInput
from perturank.service.learner import checkpoint, retention
from perturank.service.learner.checkpoint import base_of
from perturank.service.learner.lead import Lead, Superseded
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import matches_stored, rebuild, rebuild_version, retry_if_compacted
from perturank.service.learner.state import Recall, State
from perturank.service.learner.verify import faults
from perturank.service.log import Log, Transaction, changes, snapshots, sql
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import Changed, Compacted, Deleted, Impression, Record, RolledBack, Snapshot
from perturank.service.log.refusals import NotKnown, NotReady
from perturank.service.log.sqlite import SqliteLog
from perturank.service.settings import Retention


def anybody(transaction: Transaction) -> None:
    """Let any process delete, whether it leads or not."""


def compacted(log: Log, kept: Retention) -> Compacted | None:
    """Promote a base and delete what came before it."""
    found = retention.compact(log, "m", kept)
    for _ in retention.delete(log, "m", anybody):
        pass
    return found


def promoted(log: Log, guard: Callable[[Transaction], None] = anybody) -> Compacted | None:
    """Promote what the learner has stored."""
    return retention.promote(log, "m", log.stored(snapshots.state_name("m")), 0, log.tail(), guard)


def test_a_replay_begins_at_the_base_and_meets_the_same_bits(either: Log) -> None:
    created(either, ranker="p2linrank")
    learner = learned(either, spec("p2linrank"), 2)
    assert n_impressions(either) == 6
    found = compacted(either, Retention(impressions=3))
    assert found is not None
    assert (found.version, found.learned, n_impressions(either)) == (1, 3, 3)
    lived(either, spec("p2linrank"), 3, 20)
    learner.step()
    report = rebuild(either, "m")
    assert (report.begins, report.checked, report.differs) == (found.at, 3, None)
    assert matches_stored(either, report)
    assert snapshots.digest(report.ranker, whole=True) == bits(learner)
    assert list(faults(either)) == []
    again = Learner(either)  # no state was stored: it goes on from the base
    again.catch_up()
    assert bits(again) == bits(learner)


def test_a_base_of_everything_is_still_compared_with_its_version(log: Log) -> None:
    created(log)
    learned(log, spec(), 2)
    found = compacted(log, NOTHING)
    assert found is not None
    assert n_impressions(log) == 0
    report = rebuild(log, "m")
    assert (report.checked, report.differs, report.state.learned) == (1, None, 6)
    assert matches_stored(log, report)
    assert compacted(log, NOTHING) is None  # nothing came since


def test_a_replay_goes_back_to_the_base_and_no_further(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 2)
    first = log.all_of("m", Snapshot)[0].position
    compacted(log, Retention(impressions=3))
    lived(log, spec(), 2, 9)
    learner.step()
    assert rebuild(log, "m", at=first).state.learned == 3
    assert rebuild(log, "m", at=log.tail()).state.learned == 8
    with pytest.raises(NotKnown, match=f"position {first - 1} lies before the base of model 'm'.*from {first} on"):
        rebuild(log, "m", at=first - 1)


def test_a_deletion_that_is_interrupted_loses_nothing_and_is_finished_later(
    either: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    created(either)
    learner = learned(either, spec(), 3)
    learner.close()
    assert promoted(either) is not None
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
        report = rebuild(either, "m", on_record=once_at(begins, lambda: compacted(either, Retention(impressions=3))))
        assert (report.differs, report.begins) == (None, base_of(either, "m").at)  # type: ignore[union-attr]
        assert matches_stored(either, report)


def test_a_version_is_rebuilt_and_a_base_laid_though_another_is_laid_meanwhile(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(log, ranker="p2linrank")
    learner = learned(log, spec("p2linrank"), 3)
    taken = State.take
    break_in = [once_at(6, lambda: compacted(log, Retention(impressions=3)))]

    def take(state: State, record: Record) -> None:
        taken(state, record)
        break_in[0](record.position)

    monkeypatch.setattr(State, "take", take)
    assert snapshots.digest(rebuild_version(log, "m", 3), whole=True) == bits(learner)
    first = base_of(log, "m")
    assert first is not None
    lived(log, spec("p2linrank"), 6, 30)
    learner.step()
    break_in[0] = once_at(first.at + 6, lambda: compacted(log, Retention(impressions=6)))
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
    break_in = once_at(position, lambda: compacted(log, Retention(impressions=3)))

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
        promoted(log, fail)
    assert base_of(log, "m") is None
    assert rebuild(log, "m").checked == 1


def test_what_waits_for_clicks_outlives_the_base(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 1)
    waiting = served(log, spec(), 30)
    lived(log, spec(), 2, 31)
    learner.step()
    found = compacted(log, NOTHING)
    assert found is not None
    assert found.through < found.at
    assert n_impressions(log) == 3  # the one that waits, and what came after it
    must_be_learned_anew(log, waiting)


def test_feedback_on_what_is_compacted_changes_nothing(log: Log) -> None:
    created(log)
    name = lived(log, spec(), 1)[0]
    Learner(log).step()
    compacted(log, NOTHING)
    tail = log.tail()
    for final in (True, False):
        with log.transaction() as transaction:
            assert record_feedback(transaction, "m", name, ["d0"], final) == "late"
    assert log.tail() == tail


def test_a_version_that_is_gone_back_to_can_still_be_rebuilt(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 1)
    first = bits(learner)
    lived(log, spec(), 3, 10)
    learner.step()
    with log.transaction() as transaction:
        transaction.append("m", RolledBack(1))
    learner.step()
    assert bits(learner) == first
    found = compacted(log, Retention(impressions=1))
    assert found is not None
    assert found.version == 1
    assert rebuild(log, "m").differs is None
    found = compacted(log, NOTHING)
    assert found is not None
    assert found.version == 3
    with log.transaction() as transaction, pytest.raises(NotKnown, match="version 1 of model 'm' lies before its base"):
        changes.roll_back(log, transaction, "m", 1)
    with log.transaction() as transaction:
        changes.roll_back(log, transaction, "m", 3)
    assert snapshots.digest(rebuild_version(log, "m", 3), whole=True) == first
    learner.step()
    assert rebuild(log, "m").differs is None


def test_no_base_is_promoted_past_a_version_that_is_gone_back_to_later(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 2)
    append(log, RolledBack(1))
    lived(log, spec(), 3, 20)
    learner.step()
    assert compacted(log, Retention(impressions=3)) is None  # version 2 is old enough, but 1 is needed after it
    assert n_impressions(log) == 9
    lived(log, spec(), 3, 30)
    learner.step()
    found = compacted(log, Retention(impressions=3))
    assert found is not None
    assert (found.version, n_impressions(log)) == (3, 3)
    assert rebuild(log, "m").differs is None


def test_a_state_that_is_older_than_the_base_is_not_resumed_from(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 1)
    learner.close()
    lived(log, spec(), 3, 20)
    learner.step()
    found = compacted(log, NOTHING)
    assert found is not None
    assert snapshots.digest(rebuild_version(log, "m", 2), whole=True) == bits(learner)
    again = Learner(log)
    assert again.states["m"].at == found.at
    assert bits(again) == bits(learner)


def test_what_an_earlier_version_has_left_is_compacted_on(either: Log) -> None:
    created(either)
    learned(either, spec(), 2)
    found = compacted(either, Retention(impressions=3))
    assert found is not None
    with either.transaction() as transaction:  # it stored states at several versions
        transaction.store("m/mark/000000000002", b"")
        transaction.remember("m swept", found.at)
        transaction.remember("m swept through", found.through)
    learner = Learner(either, Retention(impressions=3))
    for turn in range(3):
        lived(either, spec(), 3, 20 + 3 * turn)
        learner.step()
    while learner.step() or not learner.is_tidy:
        pass
    assert n_impressions(either) <= 2 * 3 + 3
    assert "m/mark/000000000002" not in either.names("m/")
    assert rebuild(either, "m").differs is None
    assert list(faults(either)) == []


def test_a_roll_back_that_comes_meanwhile_stops_the_base(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 2)
    learner.close()
    with log.transaction() as transaction:
        transaction.append("m", RolledBack(1))
    assert promoted(log) is None
    learner.step()
    assert rebuild(log, "m").differs is None


def test_the_file_gives_its_room_back(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    created(log)
    with log.transaction() as transaction:
        for seed in range(3000):
            transaction.append("m", impression(seed, generation=99), seed.to_bytes(12, "big"))
    learned(log, spec(), 1)
    full = log.size()
    compacted(log, NOTHING)
    assert log.size() < full / 4
    log.close()


def test_a_hole_that_no_compaction_has_made_is_found(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    created(log)
    learned(log, spec(), 2)
    compacted(log, Retention(impressions=3))
    assert list(faults(log)) == []
    last = [record.position for record in log.read() if isinstance(record.entry, Impression)][-1]
    with closing(log.connect()) as connection:
        connection.execute("DELETE FROM log WHERE position = ?", (last,))
    assert any("1 records are missing that no compaction has taken out" in fault for fault in faults(log))
    log.close()


def test_a_deleted_model_leaves_nothing_but_its_changes(log: Log) -> None:
    created(log)
    learned(log, spec(), 2)
    with log.transaction() as transaction:
        changes.delete(transaction, "m")
    found = compacted(log, NOTHING)
    assert found is not None
    assert [type(record.entry) for record in log.read()] == [Changed, Snapshot, Deleted, Compacted]
    position = created(log)
    learner = learned(log, spec(), 1, 40, generation=position)
    assert rebuild(log, "m").differs is None
    assert learner.states["m"].version == 3  # versions count on


def test_another_ranker_learns_from_what_is_left(log: Log) -> None:
    created(log, ranker="p2linrank")
    learned(log, spec("p2linrank"), 2)
    compacted(log, Retention(impressions=3))
    assert rebuild(log, "m", instead=spec("pdgd-linear")).state.learned == 3


def test_a_damaged_base_is_told(log: Log) -> None:
    created(log)
    learned(log, spec(), 1)
    compacted(log, NOTHING)
    with log.transaction() as transaction:
        transaction.store(snapshots.base_name("m"), b"")
    with pytest.raises(BadInput, match="the base of model 'm' is missing or damaged"):
        rebuild(log, "m")


def test_a_shown_list_without_a_version_is_never_compacted(log: Log) -> None:
    created(log)
    shown(log)
    assert compacted(log, NOTHING) is None
    assert n_impressions(log) == 1


def test_one_that_has_lost_its_place_deletes_nothing_and_promotes_no_base(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(log)
    old = learned(log, spec(), 3)
    old.close()
    lead = Lead.take(log)
    resume = checkpoint.resume

    def meanwhile(log: Log, recall: Recall) -> dict[str, State]:
        with pytest.raises(Superseded):  # before the new one reads where it begins, nothing moves any more
            promoted(log, lead.check)
        return resume(log, recall)

    monkeypatch.setattr(checkpoint, "resume", meanwhile)
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
    learner.step()
    leader.close()
    assert retention.compact(log, "m", NOTHING) is not None
    assert retention.finish(log, {"m": 0}, 0)  # nobody else leads
    assert n_impressions(log) == 0
    log.close()


def test_the_learner_keeps_the_log_small_by_itself(either: Log) -> None:
    created(either)
    learner = Learner(either, Retention(impressions=8))
    for turn in range(12):
        lived(either, spec(), 3, 3 * turn)
        learner.step()
        assert min(3 * turn + 3, 8) <= n_impressions(either) <= 2 * (8 + 3)
    assert len(either.all_of("m", Compacted)) > 2
    report = rebuild(either, "m")
    assert (report.differs, report.state.learned) == (None, 36)
    assert list(faults(either)) == []
    forget_state(either)
    other = Learner(either, Retention(impressions=8))
    lived(either, spec(), 3, 50)
    other.step()
    assert rebuild(either, "m").differs is None


def test_a_look_deletes_pages_until_its_time_is_over(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    monkeypatch.setattr(retention, "SECONDS_TO_DELETE", 0.0)
    created(log)
    learner = learned(log, spec(), 6)
    assert retention.compact(log, "m", NOTHING) is not None
    learner.step()
    left = n_impressions(log)
    assert 12 < left < 18  # a page at least
    assert not learner.is_tidy
    learner.tidy()
    assert n_impressions(log) < left
    monkeypatch.setattr(retention, "SECONDS_TO_DELETE", 600.0)
    learner.step()
    assert (learner.is_tidy, n_impressions(log)) == (True, 0)


def test_the_learner_deletes_what_a_deleted_model_has_left(either: Log) -> None:
    created(either)
    learner = Learner(either, Retention(seconds=0))
    lived(either, spec(), 3)
    learner.step()
    with either.transaction() as transaction:
        changes.delete(transaction, "m")
    for _ in range(10):
        learner.step()
    assert learner.is_tidy
    assert n_impressions(either) == 0
    assert len(either.all_of("m", Compacted)) >= 1
    assert list(faults(either)) == []
    position = created(either)
    lived(either, spec(), 2, 40, generation=position)
    learner.step()
    assert (rebuild(either, "m").differs, learner.states["m"].learned) == (None, 2)


def test_a_source_that_is_erased_from_a_deleted_model_does_not_keep_the_rest(either: Log) -> None:
    created(either)
    learner = Learner(either, Retention(impressions=0))
    lived(either, spec(), 3)
    with either.transaction() as transaction:
        changes.delete(transaction, "m")
        changes.erase(transaction, "m", b"s" * 16)
    for _ in range(10):
        learner.step()
    assert learner.is_tidy
    assert n_impressions(either) == 0
    assert list(faults(either)) == []
    n = len(either.all_of("m", Compacted))
    Learner(either, Retention(impressions=0)).step()
    assert len(either.all_of("m", Compacted)) == n  # said once
