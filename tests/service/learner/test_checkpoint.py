from __future__ import annotations

import pytest
from helpers import small
from helpers.service_small import (
    append,
    bits,
    clicked,
    created,
    impression,
    lived,
    served,
    shown,
    spec,
    versions,
)

from perturank.service.learner import checkpoint
from perturank.service.learner import learner as learning
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild, recall_from
from perturank.service.log import Log, snapshots
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import Batch, Closed, new_id


def test_a_learner_that_starts_again_goes_on_with_the_same_bits(log: Log) -> None:
    chosen = spec("p2neurrank")
    created(log, ranker="p2neurrank")
    first = Learner(log)
    lived(log, chosen, 5)
    first.step()
    open_ones = [served(log, chosen, seed) for seed in (20, 21)]
    lived(log, chosen, 2, 30)
    first.catch_up()  # two wait for clicks, two for a batch
    first.close()
    assert log.stored(snapshots.state_name("m")) is not None
    second = Learner(log)
    assert second.position == log.tail() - 1  # the last record of a model with something to learn is read again
    clicked(log, open_ones[0], 1)
    assert second.step() == 3
    append(log, Closed(log.tail()))
    assert second.step() == 1
    report = rebuild(log, "m")
    assert (report.checked, report.differs) == (3, None)


def test_a_model_that_stands_still_does_not_send_a_restart_back_to_the_first_record(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perturank.service.learner.states.FAR_BEHIND", 20)
    created(log, "idle", ranker="p2linrank")
    shown_once = created(log, "shown", ranker="p2linrank")
    waiting = served(log, spec("p2linrank"), 40, "shown", shown_once)
    active = created(log)
    first = Learner(log)
    for start in range(0, 30, 3):
        lived(log, spec(), 3, start, generation=active)
        first.step()
    second = Learner(log)  # the first was killed: it has not closed
    assert second.position > log.tail() - 2 * 20
    clicked(log, waiting, 2, "shown")
    lived(log, spec("p2linrank"), 2, 50, "idle", generation=1)
    lived(log, spec(), 2, 60, generation=active)
    assert second.step() == 5
    for model, n in (("idle", 1), ("shown", 1), ("m", 11)):
        report = rebuild(log, model)
        assert (report.checked, report.differs) == (n, None)
        assert small.same_bits(report.state.ranker, second.states[model].ranker)


def test_a_damaged_state_is_passed_over(log: Log) -> None:
    created(log)
    learner = Learner(log)
    lived(log, spec(), 3)
    learner.step()
    learner.close()
    name = snapshots.state_name("m")
    content = log.stored(name)
    assert content is not None
    for damaged in (content[:-4] + b"abcd", content[:50], b""):
        with log.transaction() as transaction:
            transaction.store(name, damaged)
        assert checkpoint.load(log, "m", recall_from(log), name) is None
        other = Learner(log)
        other.catch_up()
        assert bits(other) == bits(learner)


def test_a_crash_between_batch_and_version_loses_and_repeats_nothing(log: Log) -> None:
    created(log)
    first = Learner(log)
    lived(log, spec(), 3)
    first.catch_up()
    append(log, Batch(first.position, 3, []))  # and then the learner dies
    second = Learner(log)
    second.step()
    assert second.states["m"].learned == 3
    assert versions(log) == [1]
    assert rebuild(log, "m").differs is None


def test_a_source_that_has_had_its_say_has_had_it_after_a_restart_too(log: Log) -> None:
    chosen = spec(cap=2)
    created(log, cap=2)
    first = Learner(log)
    lived(log, chosen, 2, source="bot")
    assert first.step() == 2
    first.close()
    lived(log, chosen, 2, 10, source="bot")
    lived(log, chosen, 1, 20, source="user")
    second = Learner(log)
    assert second.position > 0  # it goes on from a stored state, not from the first record
    assert second.step() == 1
    content = log.stored(snapshots.state_name("m"))
    assert content is not None
    assert b"bot" not in checkpoint.inflate(content, "it")


def test_clicks_that_came_before_their_list_are_not_lost_by_a_restart(log: Log) -> None:
    created(log, ranker="p2linrank")
    name = new_id(log.tail())
    with log.transaction() as transaction:
        assert record_feedback(transaction, "m", name, ["c"], False) == "early"
    lived(log, spec("p2linrank"), 1)
    first = Learner(log)
    first.step()
    shown(log, impression(), name=name)
    first.catch_up()
    first.close()
    second = Learner(log)
    append(log, Closed(log.tail()))
    assert second.step() == 1
    before = bits(second)
    with log.transaction() as transaction:
        transaction.remove(snapshots.state_name("m"))
    again = Learner(log)
    again.catch_up()
    assert bits(again) == before
    assert rebuild(log, "m").differs is None


def test_a_list_whose_last_word_came_first_is_not_learned_again_after_a_restart(log: Log) -> None:
    created(log, ranker="p2linrank")
    name = new_id(log.tail())
    with log.transaction() as transaction:
        assert record_feedback(transaction, "m", name, ["c"], True) == "early"
    shown(log)  # waits, so that the log is needed from here on
    shown(log, impression(1), name=name)
    first = Learner(log)
    assert first.step() == 1
    first.close()
    append(log, Closed(log.tail()))
    second = Learner(log)
    assert second.states["m"].tracker.waiting == first.states["m"].tracker.waiting
    assert second.step() == 1
    assert rebuild(log, "m").differs is None


def test_a_restart_between_two_batches_that_one_record_completed_goes_on_with_the_second(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "MOST_AT_ONCE", 3)
    created(log, batch=3)
    for seed in range(8):
        served(log, spec(), seed)
    append(log, Closed(log.tail()))
    for n in (3, 3, 0):
        learner = Learner(log)
        assert learner.step() == n
        learner.close()
    report = rebuild(log, "m")
    assert (report.state.learned, len(report.state.queue), report.differs) == (6, 2, None)


def test_a_model_whose_state_lies_further_back_does_not_disturb_another(log: Log) -> None:
    created(log)
    position = created(log, "n")
    learner = Learner(log)
    for turn in range(3):
        lived(log, spec(), 2, 10 * turn)
        learner.step()
    learner.close()
    with log.transaction() as transaction:
        transaction.remove(snapshots.state_name("n"))
    lived(log, spec(), 1, 50, "n", generation=position)
    again = Learner(log)
    assert again.step() == 1
    assert bits(again) == bits(learner)
