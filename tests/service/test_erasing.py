from __future__ import annotations

from pathlib import Path

import pytest
from service_small import (
    NOTHING,
    bits,
    clicked,
    created,
    forget_state,
    lived,
    must_be_learned_anew,
    n_impressions,
    served,
    spec,
)

from perturank.service import compacting, erasing, resuming, snapshots
from perturank.service.entries import Compacted, Deleted, Erased, Impression
from perturank.service.learner import Learner
from perturank.service.log import Log
from perturank.service.log.feedback import give_feedback
from perturank.service.log.sqlite import SqliteLog
from perturank.service.refusals import NotKnown
from perturank.service.replaying import rebuilt, same_as_stored
from perturank.service.retention import Retention
from perturank.service.verifying import faults

ALICE = "alice@example.org"


def two_users(log: Log, ranker: str = "pdgd-linear") -> tuple[Learner, list[bytes]]:
    """Return the learner of a log in which Alice and Bob have clicked, and the names of Alice's impressions."""
    created(log, ranker=ranker)
    learner = Learner(log)
    hers = []
    for turn in range(2):
        hers += lived(log, spec(ranker), 2, 10 * turn, source=ALICE)
        lived(log, spec(ranker), 2, 10 * turn + 5, source="bob")
        learner.step()
    return learner, hers


def tidied(learner: Learner) -> None:
    while learner.step() or not learner.is_tidy:
        pass


def sources(log: Log) -> set[str | None]:
    return {record.entry.source for record in log.read() if isinstance(record.entry, Impression)}


@pytest.mark.parametrize("ranker", ["pdgd-linear", "p2linrank"])
def test_a_source_vanishes_from_the_log_and_replay_still_meets_the_bits(either: Log, ranker: str) -> None:
    learner, hers = two_users(either, ranker)
    before = bits(learner)
    wishes = erasing.wish(either, ALICE)
    tidied(learner)
    assert sources(either) == {"bob"}
    assert not {record.impression for record in either.read()} & set(hers)
    assert list(faults(either)) == []
    assert compacting.is_swept(either, "m", wishes["m"])
    assert bits(learner) == before  # what was learned stays
    report = rebuilt(either, "m")
    assert (report.checked, report.differs) == (1, None)
    assert same_as_stored(either, report)
    lived(either, spec(ranker), 2, 60, source=ALICE)  # she may come back
    learner.step()
    assert rebuilt(either, "m").differs is None
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
    erasing.wish(log, ALICE)
    tidied(learner)
    log.close()
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"bob" in content
    assert ALICE.encode() not in content
    assert b"private" not in content


def test_what_is_left_can_be_learned_anew_without_it(log: Log) -> None:
    two_users(log, "p2linrank")
    erasing.carried_out(log, erasing.wish(log, ALICE), 60)
    assert rebuilt(log, "m", instead=spec("p2linrank")).state.learned == 4  # Bob's


def test_what_waits_is_not_learned_and_its_clicks_are_not_kept(log: Log) -> None:
    learner, _ = two_users(log)
    waiting = served(log, spec(), 40, source=ALICE)
    others = served(log, spec(), 41, source="bob")
    learner.catch_up()
    erasing.wish(log, ALICE)
    tidied(learner)
    with log.transaction() as transaction:
        assert give_feedback(transaction, "m", waiting, ["d0"], True) == "late"
    assert all(record.impression != waiting for record in log.read())
    clicked(log, others, 1)
    assert learner.step() == 1
    assert rebuilt(log, "m").differs is None


def test_a_learner_that_dies_in_between_leaves_the_rest_to_the_next(log: Log) -> None:
    learner, _ = two_users(log)
    waiting = served(log, spec(), 40, source=ALICE)
    erasing.wish(log, ALICE)
    learner.step()  # writes the base, and dies before anything is taken out
    assert log.all_of("m", Compacted)
    assert ALICE in sources(log)
    assert rebuilt(log, "m").differs is None
    second = Learner(log)
    assert second.states["m"].needed_from is None  # what was to be erased does not wait again
    tidied(second)
    assert sources(log) == {"bob"}
    assert waiting not in {record.impression for record in log.read()}


def test_the_record_of_it_does_not_name_the_source(log: Log) -> None:
    learner, _ = two_users(log)
    erasing.wish(log, ALICE)
    tidied(learner)
    wish = log.all_of("m", Erased)[0].entry
    assert isinstance(wish, Erased)
    assert ALICE.encode() not in wish.source
    content = log.stored(snapshots.base_name("m"))
    assert content is not None
    content = resuming.opened(content, "it")
    assert b"p2linrank" in content or b"pdgd-linear" in content
    assert ALICE.encode() not in content
    assert wish.source.hex().encode() not in content


def test_it_is_carried_out_without_a_learner_and_in_deleted_models_too(log: Log) -> None:
    two_users(log)
    created(log, "n")
    lived(log, spec(), 1, 70, "n", log.tail(), source=ALICE)
    with log.transaction() as transaction:
        end = transaction.append("n", Deleted())
    wishes = erasing.wish(log, ALICE)
    assert wishes["n"] > end
    assert erasing.carried_out(log, wishes, 60)
    assert sources(log) == {"bob"}
    with pytest.raises(NotKnown):
        erasing.wish(log, ALICE, "other")


def test_another_learner_is_waited_for(tmp_path: Path) -> None:
    leading, other = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "log.db")
    assert leading.try_to_lead()
    created(leading)
    wishes = erasing.wish(other, ALICE)
    assert not erasing.carried_out(other, wishes, 0)
    tidied(Learner(leading))
    assert erasing.carried_out(other, wishes, 0)
    leading.close()
    other.close()


@pytest.mark.parametrize("retention, n_left", [(NOTHING, 0), (Retention(seconds=0), 0), (Retention(impressions=4), 2)])
def test_what_others_left_can_be_compacted_after_it(either: Log, retention: Retention, n_left: int) -> None:
    learner, _ = two_users(either, "p2linrank")
    erasing.wish(either, ALICE)
    tidied(learner)
    laid = resuming.base_of(either, "m")
    assert laid is not None
    assert (laid.through, n_impressions(either)) == (0, 4)
    found = compacting.compact(either, "m", retention)
    assert found is not None
    assert (found.at, found.digest) == (laid.at, laid.digest)  # the base stays, and takes out more
    assert compacting.compact(either, "m", retention) is None  # said once
    assert rebuilt(either, "m").differs is None  # before anything is taken out, and after
    assert compacting.swept(either, ["m"], 0)
    assert n_impressions(either) == n_left
    assert list(faults(either)) == []
    report = rebuilt(either, "m")
    assert (report.checked, report.differs) == (1, None)
    assert same_as_stored(either, report)
    assert snapshots.digest(report.ranker, whole=True) == bits(learner)
    forget_state(either)
    again = Learner(either)
    lived(either, spec("p2linrank"), 2, 60, source="bob")
    assert again.step() == 2
    report = rebuilt(either, "m")
    assert (report.checked, report.differs) == (2, None)


def test_a_learner_that_is_at_work_takes_out_what_a_compaction_after_it_asks_for(tmp_path: Path) -> None:
    leading, other = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "log.db")
    assert leading.try_to_lead()
    learner, _ = two_users(leading)
    erasing.wish(other, ALICE)
    tidied(learner)
    assert compacting.compact(other, "m", NOTHING) is not None
    assert not compacting.swept(other, ["m"], 0)
    tidied(learner)
    assert compacting.swept(other, ["m"], 0)
    assert n_impressions(other) == 0
    assert rebuilt(other, "m").differs is None
    leading.close()
    other.close()


def test_what_waits_at_its_base_outlives_a_compaction_after_it(log: Log) -> None:
    learner, _ = two_users(log)
    waiting = served(log, spec(), 40, source="bob")
    lived(log, spec(), 2, 41, source="bob")
    learner.step()
    erasing.wish(log, ALICE)
    tidied(learner)
    assert n_impressions(log) == 7
    assert compacting.compact(log, "m", NOTHING) is not None
    assert compacting.swept(log, ["m"], 0)
    assert n_impressions(log) == 3  # the one that waits, and what came after it
    must_be_learned_anew(log, waiting)


def test_sources_erased_again_and_again_do_not_keep_what_is_old(log: Log) -> None:
    created(log)
    learner = Learner(log, Retention(impressions=8))
    for turn in range(10):
        lived(log, spec(), 3, 3 * turn, source="bob")
        learner.step()
        erasing.wish(log, f"user {turn}")
        tidied(learner)
        assert n_impressions(log) <= 8 + 8 // 4 + 2 * 3
        assert rebuilt(log, "m").differs is None
    assert list(faults(log)) == []


def test_the_rest_of_a_deleted_model_can_be_compacted_after_it(log: Log) -> None:
    learner, _ = two_users(log)
    with log.transaction() as transaction:
        transaction.append("m", Deleted())
    erasing.wish(log, ALICE)
    tidied(learner)
    assert sources(log) == {"bob"}
    assert compacting.compact(log, "m", NOTHING) is not None
    assert compacting.swept(log, ["m"], 0)
    assert n_impressions(log) == 0
    assert list(faults(log)) == []


def test_nothing_more_is_taken_out_for_a_base_that_is_damaged(log: Log) -> None:
    learner, _ = two_users(log)
    erasing.wish(log, ALICE)
    tidied(learner)
    with log.transaction() as transaction:
        transaction.store(snapshots.base_name("m"), b"")
    assert compacting.compact(log, "m", NOTHING) is None
    assert n_impressions(log) == 4
