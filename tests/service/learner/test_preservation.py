"""An erasure takes away records, and leaves the stored versions to be gone back to."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.service_small import (
    NOTHING,
    bits,
    closed,
    created,
    forget_state,
    learned,
    lived,
    spec,
)

from perturank.service.learner import retention
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild, rebuild_version
from perturank.service.learner.verify import faults
from perturank.service.log import Log, changes, snapshots
from perturank.service.log.generations import generations
from perturank.service.log.records import Changed, Impression
from perturank.service.log.refusals import NotKnown
from perturank.service.log.sqlite import SqliteLog

ALICE = "alice@example.org"
RANKER = "p2linrank"  # which has a history


def tidied(learner: Learner) -> None:
    while learner.step() or not learner.is_tidy:
        pass


def four_versions(log: Log) -> tuple[Learner, dict[int, bytes]]:
    """Return the learner of a model that Alice and Bob have taught, and the bits of its versions."""
    created(log, ranker=RANKER)
    learner, found = Learner(log), {}
    for version in range(1, 5):
        lived(log, spec(RANKER), 2, 10 * version, source=ALICE if version % 2 else "bob")
        closed(log)
        learner.step()
        found[version] = bits(learner)
    return learner, found


def erased(log: Log, learner: Learner, source: str = ALICE) -> None:
    retention.request_erasure(log, source)
    tidied(learner)
    shown = [record.entry for record in log.read() if isinstance(record.entry, Impression)]
    assert all(entry.source != source for entry in shown)


def roll_back(log: Log, version: int) -> None:
    with log.transaction() as transaction:
        changes.roll_back(log, transaction, "m", version)


def is_the_same_replayed(log: Log, learner: Learner) -> bool:
    """Return whether replay, and a learner that begins at the base, come to the same bits."""
    report = rebuild(log, "m")
    assert report.differs is None
    forget_state(log)
    again = Learner(log)
    again.step()
    return snapshots.digest(report.ranker, whole=True) == bits(again) == bits(learner)


def test_any_stored_version_can_be_rolled_back_to(either: Log) -> None:
    learner, before = four_versions(either)
    erased(either, learner)
    for version in (1, 3, 2):
        roll_back(either, version)
        learner.step()
        assert bits(learner) == before[version]
        lived(either, spec(RANKER), 1, 60 + version, source="bob")
        learner.step()
    assert snapshots.digest(rebuild_version(either, "m", 4), whole=True) == before[4]  # as for a file
    assert is_the_same_replayed(either, learner)
    assert list(faults(either)) == []


def test_one_erasure_after_another_leaves_them(log: Log) -> None:
    learner, before = four_versions(log)
    erased(log, learner)
    roll_back(log, 2)
    learner.step()
    lived(log, spec(RANKER), 1, 60, source="carol")
    learner.step()
    erased(log, learner, "bob")
    erased(log, Learner(log), "carol")
    roll_back(log, 1)
    learner = Learner(log)
    tidied(learner)
    assert bits(learner) == before[1]
    assert is_the_same_replayed(log, learner)


def test_an_earlier_generation_can_be_restored(either: Log) -> None:
    learner, before = four_versions(either)
    with either.transaction() as transaction:
        later = transaction.append("m", Changed(0, spec(RANKER, seed=2)))
    lived(either, spec(RANKER), 2, 60, generation=later, source="bob")
    learner.step()
    erased(either, learner)
    assert [each.refusal for each in generations(either, "m")] == ["", "it is the present one"]
    with either.transaction() as transaction:
        changes.restore(either, transaction, "m", 1)
    learner.step()
    assert bits(learner) == before[4]
    assert is_the_same_replayed(either, learner)


def test_what_retention_lets_go_is_gone(log: Log) -> None:
    learner, _ = four_versions(log)
    erased(log, learner)
    roll_back(log, 1)
    tidied(learner)
    roll_back(log, 3)  # replay goes back to it behind the new base
    assert snapshots.whole_versions(log, "m") == {1, 2, 3, 4}
    assert retention.compact(log, "m", NOTHING) is not None
    assert snapshots.whole_versions(log, "m") == {3}
    tidied(learner)
    assert is_the_same_replayed(log, learner)
    with log.transaction() as transaction:
        transaction.store(snapshots.whole_name("m", 5), b"")  # of the base itself, which is named already
    with pytest.raises(NotKnown, match=r"before its base; versions from 5 on can be rolled back to, and 3$"):
        roll_back(log, 2)


def test_learning_goes_on_meanwhile_and_a_learner_that_dies_is_followed(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, before = four_versions(log)
    monkeypatch.setattr(retention, "SECONDS_TO_DELETE", 0)  # a record at each look
    retention.request_erasure(log, ALICE)
    learner.step()
    lived(log, spec(RANKER), 2, 60, source="bob")
    assert learner.step() == 2
    assert snapshots.whole_versions(log, "m") == {5}  # the new one; it is not back at the first one yet
    before[5] = bits(learner)
    learner.close()
    second = Learner(log)
    tidied(second)
    for version in (5, 1, 4):
        roll_back(log, version)
        second.step()
        assert bits(second) == before[version]
    assert is_the_same_replayed(log, second)


def test_a_damaged_base_does_not_stop_an_erasure(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    learner, _ = four_versions(log)
    erased(log, learner)
    lived(log, spec(RANKER), 2, 60, source="bob")
    learner.step()
    with log.transaction() as transaction:
        transaction.store(snapshots.base_name("m"), b"")
    erased(log, learner, "bob")
    assert "cannot be kept: the base of model 'm' is missing or damaged" in caplog.text
    assert rebuild(log, "m").differs is None


def test_whole_versions_are_deleted_with_their_model(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    created(log, ranker=RANKER)
    learner = learned(log, spec(RANKER), 2)
    erased(log, learner)
    assert snapshots.whole_versions(log, "m")
    with log.transaction() as transaction:
        changes.delete(transaction, "m")
    tidied(learner)
    assert log.names("m/") == []
    log.close()
