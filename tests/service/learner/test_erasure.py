from __future__ import annotations

from pathlib import Path

import pytest
from helpers.service_small import (
    NOTHING,
    bits,
    clicked,
    closed,
    created,
    forget_state,
    lived,
    must_be_learned_anew,
    n_impressions,
    served,
    spec,
)

from perturank.errors import BadInput
from perturank.service.learner import checkpoint, retention
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import matches_stored, rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Log, snapshots
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import Compacted, Deleted, Erased, Feedback, Impression
from perturank.service.log.refusals import NotKnown
from perturank.service.log.sqlite import SqliteLog
from perturank.service.settings import Retention

ALICE = "alice@example.org"


def two_users(log: Log, ranker: str = "pdgd-linear") -> tuple[Learner, list[bytes]]:
    """Return the learner of a log in which Alice and Bob have clicked, and the names of Alice's impressions."""
    created(log, ranker=ranker)
    learner = Learner(log)
    hers = []
    for turn in range(2):
        hers += lived(log, spec(ranker), 2, 10 * turn, source=ALICE)
        lived(log, spec(ranker), 2, 10 * turn + 5, source="bob")
        closed(log)
        learner.step()
    return learner, hers


def tidied(learner: Learner) -> None:
    while learner.step() or not learner.is_tidy:
        pass


def write_base(learner: Learner) -> None:
    while not learner.log.all_of("m", Compacted):
        learner.step()


def sources(log: Log) -> set[str | None]:
    return {record.entry.source for record in log.read() if isinstance(record.entry, Impression)}


@pytest.mark.parametrize("ranker", ["pdgd-linear", "p2linrank"])
def test_a_source_vanishes_from_the_log_and_replay_still_meets_the_bits(either: Log, ranker: str) -> None:
    learner, hers = two_users(either, ranker)
    before = bits(learner)
    wishes = retention.request_erasure(either, ALICE)
    tidied(learner)
    assert sources(either) == {"bob"}
    assert not {record.impression for record in either.read()} & set(hers)
    assert list(faults(either)) == []
    assert retention.is_done(either, "m", wishes["m"])
    assert bits(learner) == before  # what was learned stays
    report = rebuild(either, "m")
    assert (report.checked, report.differs) == (1, None)
    assert matches_stored(either, report)
    lived(either, spec(ranker), 2, 60, source=ALICE)  # she may come back
    learner.step()
    assert rebuild(either, "m").differs is None
    assert sources(either) == {ALICE, "bob"}


def test_not_a_byte_of_it_is_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    created(log)
    learner = Learner(log)
    lived(log, spec(), 3, source=ALICE, ids=["private-1", "private-2", "private-3", "private-4"])
    lived(log, spec(), 3, 10, source="bob")
    learner.step()
    learner.close()
    retention.request_erasure(log, ALICE)
    tidied(learner)
    log.close()
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"bob" in content
    assert ALICE.encode() not in content
    assert b"private" not in content


def test_what_is_left_can_be_learned_anew_without_it(log: Log) -> None:
    two_users(log, "p2linrank")
    retention.finish(log, retention.request_erasure(log, ALICE), 60)
    assert rebuild(log, "m", instead=spec("p2linrank")).state.learned == 4  # Bob's


def test_what_waits_is_not_learned_and_its_clicks_are_not_kept(log: Log) -> None:
    learner, _ = two_users(log)
    waiting = served(log, spec(), 40, source=ALICE)
    others = served(log, spec(), 41, source="bob")
    learner.catch_up()
    retention.request_erasure(log, ALICE)
    tidied(learner)
    with log.transaction() as transaction:
        assert record_feedback(transaction, "m", waiting, ["d0"], True) == "late"
    assert all(record.impression != waiting for record in log.read())
    clicked(log, others, 1)
    assert learner.step() == 1
    assert rebuild(log, "m").differs is None


def test_a_learner_that_dies_in_between_leaves_the_rest_to_the_next(log: Log) -> None:
    learner, _ = two_users(log)
    waiting = served(log, spec(), 40, source=ALICE)
    retention.request_erasure(log, ALICE)
    write_base(learner)  # and dies before anything is taken out
    assert ALICE in sources(log)
    assert rebuild(log, "m").differs is None
    second = Learner(log)
    assert second.states["m"].needed_from is None  # what was to be erased does not wait again
    tidied(second)
    assert sources(log) == {"bob"}
    assert waiting not in {record.impression for record in log.read()}


def test_a_position_is_not_used_again_although_the_last_record_goes(either: Log) -> None:
    learner, _ = two_users(either)
    waiting = served(either, spec(), 40, source=ALICE)
    learner.step()
    retention.request_erasure(either, ALICE)
    write_base(learner)
    with either.transaction() as transaction:
        last = transaction.append("m", Feedback(["d0"], False, "counted"), waiting)
    tidied(learner)
    assert [record.position for record in either.read(after=last - 1)] == []
    assert either.tail() == last
    name = served(either, spec(), 41, source="bob")
    assert [record.position for record in either.about([name])] == [last + 1]
    clicked(either, name, 1)
    assert learner.step() == 1
    assert rebuild(either, "m").differs is None
    assert list(faults(either)) == []


def test_the_record_of_it_does_not_name_the_source(log: Log) -> None:
    learner, _ = two_users(log)
    retention.request_erasure(log, ALICE)
    tidied(learner)
    wish = log.all_of("m", Erased)[0].entry
    assert isinstance(wish, Erased)
    assert ALICE.encode() not in wish.source
    content = log.stored(snapshots.base_name("m"))
    assert content is not None
    content = checkpoint.inflate(content, "it")
    assert b"p2linrank" in content or b"pdgd-linear" in content
    assert ALICE.encode() not in content
    assert wish.source.hex().encode() not in content


def test_it_is_carried_out_without_a_learner_and_in_deleted_models_too(log: Log) -> None:
    two_users(log)
    created(log, "n")
    lived(log, spec(), 1, 70, "n", log.tail(), source=ALICE)
    with log.transaction() as transaction:
        end = transaction.append("n", Deleted())
    wishes = retention.request_erasure(log, ALICE)
    assert wishes["n"] > end
    assert retention.finish(log, wishes, 60)
    assert sources(log) == {"bob"}
    with pytest.raises(NotKnown):
        retention.request_erasure(log, ALICE, "other")


def test_another_learner_is_waited_for(tmp_path: Path) -> None:
    leading, other = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "log.db")
    assert leading.try_to_lead()
    created(leading)
    wishes = retention.request_erasure(other, ALICE)
    assert not retention.finish(other, wishes, 0)
    tidied(Learner(leading))
    assert retention.finish(other, wishes, 0)
    leading.close()
    other.close()


@pytest.mark.parametrize("kept, n_left", [(NOTHING, 0), (Retention(seconds=0), 0), (Retention(impressions=4), 2)])
def test_what_others_left_can_be_compacted_after_it(either: Log, kept: Retention, n_left: int) -> None:
    learner, _ = two_users(either, "p2linrank")
    retention.request_erasure(either, ALICE)
    tidied(learner)
    laid = checkpoint.base_of(either, "m")
    assert laid is not None
    assert (laid.through, n_impressions(either)) == (0, 4)
    found = retention.compact(either, "m", kept)
    assert found is not None
    assert (found.at, found.digest) == (laid.at, laid.digest)  # the base stays, and takes out more
    assert retention.compact(either, "m", kept) is None  # said once
    assert rebuild(either, "m").differs is None  # before anything is taken out, and after
    assert retention.finish(either, {"m": 0}, 0)
    assert n_impressions(either) == n_left
    assert list(faults(either)) == []
    report = rebuild(either, "m")
    assert (report.checked, report.differs) == (1, None)
    assert matches_stored(either, report)
    assert snapshots.digest(report.ranker, whole=True) == bits(learner)
    forget_state(either)
    again = Learner(either)
    lived(either, spec("p2linrank"), 2, 60, source="bob")
    assert again.step() == 2
    report = rebuild(either, "m")
    assert (report.checked, report.differs) == (2, None)


def test_a_learner_that_is_at_work_deletes_what_a_compaction_after_it_asks_for(tmp_path: Path) -> None:
    leading, other = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "log.db")
    assert leading.try_to_lead()
    learner, _ = two_users(leading)
    retention.request_erasure(other, ALICE)
    tidied(learner)
    assert retention.compact(other, "m", NOTHING) is not None
    assert not retention.finish(other, {"m": 0}, 0)
    tidied(learner)
    assert retention.finish(other, {"m": 0}, 0)
    assert n_impressions(other) == 0
    assert rebuild(other, "m").differs is None
    leading.close()
    other.close()


def test_what_waits_at_its_base_outlives_a_compaction_after_it(log: Log) -> None:
    learner, _ = two_users(log)
    waiting = served(log, spec(), 40, source="bob")
    lived(log, spec(), 2, 41, source="bob")
    learner.step()
    retention.request_erasure(log, ALICE)
    tidied(learner)
    assert n_impressions(log) == 7
    assert retention.compact(log, "m", NOTHING) is not None
    assert retention.finish(log, {"m": 0}, 0)
    assert n_impressions(log) == 3  # the one that waits, and what came after it
    must_be_learned_anew(log, waiting)


def test_sources_erased_again_and_again_do_not_keep_what_is_old(log: Log) -> None:
    created(log)
    learner = Learner(log, Retention(impressions=8))
    for turn in range(10):
        lived(log, spec(), 3, 3 * turn, source="bob")
        closed(log)
        learner.step()
        retention.request_erasure(log, f"user {turn}")
        tidied(learner)
        assert n_impressions(log) <= 8 + 2 * 3
        assert rebuild(log, "m").differs is None
    assert list(faults(log)) == []


def test_the_rest_of_a_deleted_model_can_be_compacted_after_it(log: Log) -> None:
    learner, _ = two_users(log)
    with log.transaction() as transaction:
        transaction.append("m", Deleted())
    retention.request_erasure(log, ALICE)
    tidied(learner)
    assert sources(log) == {"bob"}
    assert retention.compact(log, "m", NOTHING) is not None
    assert retention.finish(log, {"m": 0}, 0)
    assert n_impressions(log) == 0
    assert list(faults(log)) == []


def test_nothing_more_is_deleted_for_a_base_that_is_damaged(log: Log) -> None:
    learner, _ = two_users(log)
    retention.request_erasure(log, ALICE)
    tidied(learner)
    with log.transaction() as transaction:
        transaction.store(snapshots.base_name("m"), b"")
    with pytest.raises(BadInput, match="the base of model 'm' is damaged"):
        retention.compact(log, "m", NOTHING)
    assert n_impressions(log) == 4
