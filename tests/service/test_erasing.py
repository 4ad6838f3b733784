from __future__ import annotations

from pathlib import Path

import pytest
from service_small import bits, clicked, created, lived, served, spec

from perturank.service import compacting, erasing, resuming, snapshots
from perturank.service.entries import Compacted, Deleted, Erased, Impression
from perturank.service.learner import Learner
from perturank.service.log import Log
from perturank.service.log.effects import give_feedback
from perturank.service.log.sqlite import SqliteLog
from perturank.service.refusals import NotKnown
from perturank.service.replaying import rebuilt, same_as_stored
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
