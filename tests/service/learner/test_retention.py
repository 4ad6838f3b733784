"""What a compaction leaves: a base, what waits, and all that can still be rebuilt."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from helpers.compaction import compact_all
from helpers.service_small import (
    NOTHING,
    append,
    bits,
    closed,
    created,
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
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import matches_stored, rebuild, rebuild_version
from perturank.service.learner.verify import faults
from perturank.service.log import Log, changes, snapshots
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import Changed, Closed, Compacted, Deleted, Impression, RolledBack, Snapshot
from perturank.service.log.refusals import NotKnown
from perturank.service.log.sqlite import SqliteLog
from perturank.service.settings import Retention


def test_a_replay_begins_at_the_base_and_meets_the_same_bits(either: Log) -> None:
    created(either, ranker="p2linrank")
    learner = learned(either, spec("p2linrank"), 2)
    assert n_impressions(either) == 6
    found = compact_all(either, Retention(impressions=3))
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
    found = compact_all(log, NOTHING)
    assert found is not None
    assert n_impressions(log) == 0
    report = rebuild(log, "m")
    assert (report.checked, report.differs, report.state.learned) == (1, None, 6)
    assert matches_stored(log, report)
    assert compact_all(log, NOTHING) is None  # nothing came since


def test_what_a_scale_needs_that_is_still_learned_stays(either: Log) -> None:
    chosen = spec("p2linrank", scaling="auto")
    created(either, ranker="p2linrank", scaling="auto")
    learner = learned(either, chosen, 2)
    compact_all(either, NOTHING)
    assert n_impressions(either) == 6
    lived(either, chosen, 3, 20)  # with the eighth, the scale is estimated again
    learner.step()
    report = rebuild(either, "m")
    assert (report.differs, report.state.scaled) == (None, 8)
    assert snapshots.digest(report.ranker, whole=True) == bits(learner)


def test_a_replay_goes_back_to_the_base_and_no_further(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 2)
    first = log.all_of("m", Snapshot)[0].position
    compact_all(log, Retention(impressions=3))
    lived(log, spec(), 2, 9)
    learner.step()
    assert rebuild(log, "m", at=first).state.learned == 3
    assert rebuild(log, "m", at=log.tail()).state.learned == 8
    with pytest.raises(NotKnown, match=f"position {first - 1} lies before the base of model 'm'.*from {first} on"):
        rebuild(log, "m", at=first - 1)


def test_what_waits_for_clicks_outlives_the_base(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 1)
    waiting = served(log, spec(), 30)
    lived(log, spec(), 2, 31)
    learner.step()
    found = compact_all(log, NOTHING)
    assert found is not None
    assert found.through < found.at
    assert n_impressions(log) == 3  # the one that waits, and what came after it
    must_be_learned_anew(log, waiting)


def test_feedback_on_what_is_compacted_changes_nothing(log: Log) -> None:
    created(log)
    name = lived(log, spec(), 1)[0]
    closed(log)
    Learner(log).step()
    compact_all(log, NOTHING)
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
    found = compact_all(log, Retention(impressions=1))
    assert found is not None
    assert found.version == 1
    assert rebuild(log, "m").differs is None
    found = compact_all(log, NOTHING)
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
    closed(log)
    learner.step()
    assert compact_all(log, Retention(impressions=3)) is None  # version 2 is old enough, but 1 is needed after it
    assert n_impressions(log) == 9
    lived(log, spec(), 3, 30)
    closed(log)
    learner.step()
    found = compact_all(log, Retention(impressions=3))
    assert found is not None
    assert (found.version, n_impressions(log)) == (3, 3)
    assert rebuild(log, "m").differs is None


def test_a_state_that_is_older_than_the_base_is_not_resumed_from(log: Log) -> None:
    created(log)
    learner = learned(log, spec(), 1)
    learner.close()
    lived(log, spec(), 3, 20)
    learner.step()
    found = compact_all(log, NOTHING)
    assert found is not None
    assert snapshots.digest(rebuild_version(log, "m", 2), whole=True) == bits(learner)
    again = Learner(log)
    assert again.states["m"].at == found.at
    assert bits(again) == bits(learner)


def test_what_an_earlier_version_has_left_is_compacted_on(either: Log) -> None:
    created(either)
    learned(either, spec(), 2)
    found = compact_all(either, Retention(impressions=3))
    assert found is not None
    with either.transaction() as transaction:  # it stored states at several versions
        transaction.store("m/mark/000000000002", b"")
        transaction.remember("m swept", found.at)
        transaction.remember("m swept through", found.through)
    learner = Learner(either, Retention(impressions=3))
    for turn in range(3):
        lived(either, spec(), 3, 20 + 3 * turn)
        closed(either)
        learner.step()
    while learner.step() or not learner.is_tidy:
        pass
    assert n_impressions(either) <= 2 * 3 + 3
    assert "m/mark/000000000002" not in either.names("m/")
    assert rebuild(either, "m").differs is None
    assert list(faults(either)) == []


def test_the_file_gives_its_room_back(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    created(log)
    with log.transaction() as transaction:
        for seed in range(3000):
            transaction.append("m", impression(seed, generation=99), seed.to_bytes(12, "big"))
    learned(log, spec(), 1)
    full = log.size()
    compact_all(log, NOTHING)
    assert log.size() < full / 4
    log.close()


def test_a_hole_that_no_compaction_has_made_is_found(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    created(log)
    learned(log, spec(), 2)
    compact_all(log, Retention(impressions=3))
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
    found = compact_all(log, NOTHING)
    assert found is not None
    assert [type(record.entry) for record in log.read()] == [Changed, Closed, Snapshot, Deleted, Compacted]
    position = created(log)
    learner = learned(log, spec(), 1, 40, generation=position)
    assert rebuild(log, "m").differs is None
    assert learner.states["m"].version == 3  # versions count on


def test_another_ranker_learns_from_what_is_left(log: Log) -> None:
    created(log, ranker="p2linrank")
    learned(log, spec("p2linrank"), 2)
    compact_all(log, Retention(impressions=3))
    assert rebuild(log, "m", instead=spec("pdgd-linear")).state.learned == 3


def test_a_damaged_base_is_told(log: Log) -> None:
    created(log)
    learned(log, spec(), 1)
    compact_all(log, NOTHING)
    with log.transaction() as transaction:
        transaction.store(snapshots.base_name("m"), b"")
    with pytest.raises(BadInput, match="the base of model 'm' is missing or damaged"):
        rebuild(log, "m")


def test_a_shown_list_without_a_version_is_never_compacted(log: Log) -> None:
    created(log)
    shown(log)
    assert compact_all(log, NOTHING) is None
    assert n_impressions(log) == 1
