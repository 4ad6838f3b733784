from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from helpers import small
from helpers.service_small import (
    PLACES,
    append,
    bits,
    clicked,
    created,
    impression,
    learned,
    lived,
    rows,
    served,
    shown,
    spec,
    versions,
)

from perturank.core import LEARNING, Interaction, Query, streams
from perturank.service.learner import learner as learning
from perturank.service.learner import update
from perturank.service.learner.lead import Superseded
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import matches_stored, rebuild, rebuild_version
from perturank.service.learner.retention import Housekeeper
from perturank.service.learner.state import State
from perturank.service.log import Log, changes, snapshots
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import Batch, Changed, Closed, Deleted, Imported, RolledBack, source_seal
from perturank.service.log.refusals import NotReady
from perturank.service.settings import Retention

MODELS = ["pdgd-linear", "p2headrank", "p2neurrank", "p2linrank", "dbgd-linear"]


@pytest.mark.parametrize("ranker", MODELS)
def test_a_replay_meets_every_bit_of_every_version(log: Log, ranker: str) -> None:
    chosen = spec(ranker)
    created(log, ranker=ranker)
    learner = Learner(log)
    for start in (0, 3, 8):
        lived(log, chosen, 3 + start // 3, start)
        assert learner.step() == 3 + start // 3
    report = rebuild(log, "m")
    assert (report.checked, report.differs) == (3, None)
    assert matches_stored(log, report)
    assert small.same_bits(report.state.ranker, learner.states["m"].ranker)


def test_learning_changes_the_model_and_publishes_a_version(log: Log) -> None:
    created(log)
    learner = Learner(log)
    before = bits_of_start = snapshots.digest(spec().start(), whole=True)
    lived(log, spec(), 4)
    assert learner.step() == 4
    assert learner.step() == 0
    assert bits(learner) != before
    assert versions(log) == [1]
    content = log.stored(snapshots.version_name("m", 1))
    assert content is not None
    assert snapshots.digest(snapshots.ranker_of(content, "it", spec())[0], whole=True) == bits(learner) != bits_of_start


def test_one_list_at_a_time_is_what_the_library_learns(log: Log) -> None:
    """The oracle: `learn` called by hand on the shown documents, with the keys of a simulation's rounds."""
    chosen = spec("p2linrank")
    created(log, ranker="p2linrank")
    learner = Learner(log)
    for seed in range(3):
        lived(log, chosen, 1, seed)
        assert learner.step() == 1
    by_hand, start = update.with_room(chosen.start(), 1, 0, PLACES), chosen.start()
    for seed in range(3):
        query = Query.of(rows(6, seed))
        ranking = start.rank(query, jax.random.key(seed), PLACES)
        clicks = [int(ranking.documents[seed % PLACES])]
        key = jax.random.fold_in(streams(chosen.seed)[LEARNING], seed + 1)
        by_hand = by_hand.learn(Interaction.of(query, ranking, clicks), key)
    for found, expected in zip(small.arrays(learner.states["m"].ranker), small.arrays(by_hand), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_learner_that_lost_its_place_cannot_write(log: Log) -> None:
    created(log)
    old = Learner(log)
    lived(log, spec(), 2)
    new = Learner(log)
    with pytest.raises(Superseded):
        old.step()
    assert versions(log) == []
    assert new.step() == 2


def test_a_changed_ranker_starts_anew_and_old_impressions_are_not_learned(log: Log) -> None:
    created(log)
    learner = Learner(log)
    lived(log, spec(), 2)
    learner.step()
    waiting = served(log, spec(), 9)
    append(log, Changed(0, spec(settings={"learning_rate": 0.5})))
    with log.transaction() as transaction:
        assert record_feedback(transaction, "m", waiting, [], True) == "recorded"
    assert learner.step() == 0
    assert bits(learner) == snapshots.digest(spec(settings={"learning_rate": 0.5}).start(), whole=True)
    lived(log, spec(), 1, 11, generation=learner.states["m"].generation)
    assert learner.step() == 1
    assert versions(log) == [1, 2]
    assert rebuild(log, "m").differs is None


def test_a_changed_window_keeps_what_was_learned(log: Log) -> None:
    position = created(log)
    learner = Learner(log)
    lived(log, spec(), 2)
    learner.step()
    before = bits(learner)
    append(log, Changed(position, spec(window=5.0)))
    learner.step()
    assert bits(learner) == before
    assert learner.states["m"].spec == spec(window=5.0)


def test_a_roll_back_returns_to_the_bits_of_a_version_and_goes_on_from_there(log: Log) -> None:
    created(log)
    learner = Learner(log)
    lived(log, spec(), 2)
    learner.step()
    first = bits(learner)
    lived(log, spec(), 2, 5)
    learner.step()
    append(log, RolledBack(1))
    learner.step()
    assert bits(learner) == first
    assert versions(log) == [1, 2, 3]
    lived(log, spec(), 1, 9)
    learner.step()
    report = rebuild(log, "m")
    assert (report.checked, report.differs) == (4, None)


def test_a_replay_over_many_roll_backs_learns_every_batch_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    created(log)
    learner, n = Learner(log), 0

    def learn(*args: Any, learns: Callable[..., Any] = update.learn_from, **kwargs: Any) -> Any:
        nonlocal n
        n += 1
        return learns(*args, **kwargs)

    monkeypatch.setattr(update, "learn_from", learn)
    for turn in range(1, 7):
        lived(log, spec(), 1, turn)
        learner.step()
        n = 0
        append(log, RolledBack(2 * turn - 1))  # to the newest version
        learner.step()
        assert n == turn
    assert not learner.states["m"].kept  # rankers can be large
    n = 0
    assert rebuild(log, "m").differs is None
    assert n == 6
    n = 0
    assert snapshots.digest(rebuild_version(log, "m", 12), whole=True) == bits(learner)
    assert n == 6


def test_a_roll_back_leads_to_before_a_stored_state(log: Log) -> None:
    created(log, ranker="p2linrank")
    learner = learned(log, spec("p2linrank"), 2)
    learner.close()
    for version, start in ((1, 20), (4, 30), (1, 40)):
        lived(log, spec("p2linrank"), 2, start)
        learner.step()
        append(log, RolledBack(version))
        learner.step()
    assert versions(log) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert snapshots.digest(rebuild_version(log, "m", 8), whole=True) == bits(learner)
    again = Learner(log)
    assert again.states["m"].version == 2
    again.catch_up()
    assert bits(again) == bits(learner)
    assert rebuild(log, "m").differs is None


def test_an_imported_ranker_is_learned_on(log: Log) -> None:
    created(log)
    other = small.ranker("pdgd-linear")
    with log.transaction() as transaction:
        transaction.store("m/imported/1", snapshots.state_bytes(other))
        transaction.append("m", Imported("m/imported/1"))
    learner = Learner(log)
    learner.step()
    assert bits(learner) == snapshots.digest(other, whole=True)
    lived(log, spec(), 1)
    learner.step()
    assert rebuild(log, "m").differs is None


def test_a_deleted_model_learns_no_more_and_its_versions_count_on(log: Log) -> None:
    created(log)
    learner = Learner(log)
    lived(log, spec(), 1)
    learner.step()
    append(log, Deleted())
    lived(log, spec(), 1, 4)
    assert learner.step() == 0
    position = created(log)
    lived(log, spec(), 1, 6, generation=position)
    Learner(log).step()
    assert versions(log) == [1, 2]


def test_a_learner_that_has_not_seen_a_model_deleted_stores_nothing_for_it(log: Log) -> None:
    created(log)
    learner = Learner(log)
    lived(log, spec(), 2)
    learner.step()
    learner.states["m"].learned += 1  # as if there were something to store
    with log.transaction() as transaction:
        changes.delete(transaction, "m")
    learner.close()
    Housekeeper(log, Retention(impressions=1), lambda transaction: None).look(list(learner.states.values()))
    assert log.names("") == []


def test_a_source_has_its_say_only_so_often_and_the_log_says_so(log: Log) -> None:
    chosen = spec(cap=2)
    created(log, cap=2)
    learner = Learner(log)
    names = [served(log, chosen, seed, source="bot") for seed in range(4)]
    names += [served(log, chosen, 10 + seed, source=f"user {seed}") for seed in range(2)]
    names += [served(log, chosen, 20 + seed) for seed in range(4)]  # nobody in particular
    for name in names:
        clicked(log, name, 0)
    assert learner.step() == 8
    batches = [record.entry for record in log.control_records() if isinstance(record.entry, Batch)]
    assert batches == [Batch(batches[0].through, 8, names[2:4], is_counted=True, keeps_first=True)]
    assert rebuild(log, "m").differs is None


def test_shadow_lists_teach_only_those_that_need_no_memo(log: Log) -> None:
    for number, (ranker, n) in enumerate([("pdgd-linear", 0), ("p2linrank", 1)]):
        model = str(number)
        position = created(log, model, ranker=ranker)
        name = shown(log, impression(generation=position, mode="shadow"), model)
        clicked(log, name, 1, model)
        learner = Learner(log)
        assert learner.step() == n


def test_a_replay_stops_at_a_position_or_runs_under_another_ranker(log: Log, tmp_path: Path) -> None:
    created(log, ranker="p2linrank")
    learner = Learner(log)
    lived(log, spec("p2linrank"), 3)
    learner.step()
    first, end = bits(learner), log.tail()
    lived(log, spec("p2linrank"), 3, 5)
    learner.step()
    past = rebuild(log, "m", at=end).state.ranker
    assert past is not None
    assert snapshots.digest(past, whole=True) == first
    other = rebuild(log, "m", instead=spec("pdgd-linear")).state
    assert (type(other.ranker).__name__, other.learned) == ("PDGD", 6)
    assert snapshots.digest(other.ranker) != snapshots.digest(spec("pdgd-linear").start())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot learn from lists that it has not drawn itself"):
        rebuild(log, "m", instead=spec("dbgd-linear"))


def test_more_impressions_than_fit_a_compiled_call_are_all_learned(log: Log) -> None:
    created(log)
    lived(log, spec(), 70)
    learner = Learner(log)
    assert learner.step() == 70
    assert rebuild(log, "m").differs is None


def test_batches_of_a_fixed_size_wait_until_they_are_whole(log: Log) -> None:
    created(log, batch=3)
    learner = Learner(log)
    lived(log, spec(), 7)
    assert learner.step() == 6
    assert [record.entry.n for record in log.control_records() if isinstance(record.entry, Batch)] == [3, 3]
    lived(log, spec(), 2, 7)
    assert learner.step() == 3
    report = rebuild(log, "m")
    assert report.differs is None
    assert small.same_bits(report.state.ranker, learner.states["m"].ranker)


def test_batches_of_a_fixed_size_and_the_cap_hold_where_a_window_closes_over_many(log: Log) -> None:
    created(log, cap=2, batch=3)
    learner = Learner(log)
    names = [served(log, spec(), seed, source="bot") for seed in range(7)]
    names += [served(log, spec(), seed) for seed in range(7, 10)]
    append(log, Closed(log.tail()))
    assert learner.step() == 4
    batches = [record.entry for record in log.control_records() if isinstance(record.entry, Batch)]
    assert [(batch.n, batch.skipped) for batch in batches] == [(2, names[2:3]), (0, names[3:6]), (2, names[6:7])]
    assert len(learner.states["m"].queue) == 1
    assert rebuild(log, "m").differs is None


def test_a_backlog_is_learned_in_steps_each_with_its_version(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MOST_AT_ONCE", 4)
    created(log)
    lived(log, spec(), 10)
    learner = Learner(log)
    assert [(learner.step(), learner.is_tidy) for _ in range(4)] == [(4, False), (4, False), (2, True), (0, True)]
    report = rebuild(log, "m")
    assert (report.checked, report.differs) == (3, None)


def test_a_learner_that_is_to_stop_does_not_read_to_the_end(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    created(log)
    learner = learned(log, spec(), 4)
    monkeypatch.setattr(learning, "STATE_EVERY", 6)
    batches = [record.position for record in log.control_records() if isinstance(record.entry, Batch)]
    second = Learner(log, is_over=lambda: True)
    assert second.step() == 0
    assert second.position == 1
    third = Learner(log, is_over=lambda: third.position == batches[2])
    third.catch_up()
    assert third.position == batches[2]
    fourth = Learner(log)  # a state was stored on the way
    assert fourth.states["m"].at == batches[1]
    fourth.catch_up()
    assert bits(fourth) == bits(learner)


def test_a_batch_is_not_written_where_a_wish_has_taken_some_of_it_away(log: Log) -> None:
    created(log)
    learner = Learner(log)
    lived(log, spec(), 2, source="alice")
    lived(log, spec(), 2, 5, source="bob")

    def meanwhile(state: State) -> bool:
        with log.transaction() as transaction:
            changes.erase(transaction, "m", source_seal("alice", log.secret))
        return False

    assert learner.step(meanwhile) == 0
    assert not log.all_of("m", Batch)
    assert learner.step() == 2
    assert rebuild(log, "m").differs is None


def test_a_batch_that_does_not_fit_what_was_read_stops_the_learner(log: Log) -> None:
    created(log)
    lived(log, spec(), 2)
    first = Learner(log)
    assert first.step() == 2
    first.close()
    append(log, Batch(log.tail(), 3, [], is_counted=True))
    with pytest.raises(NotReady, match="batch at position 8 of model 'm' is not what the records before it make it"):
        Learner(log).step()
    assert log.stored(snapshots.state_name("m")) is None  # what was stored may have come of the same
    with pytest.raises(NotReady, match="begin again at the base"):
        rebuild(log, "m")


def test_more_than_is_read_at_once_is_learned_to_the_same_bits(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    created(log, ranker="p2linrank")
    lived(log, spec("p2linrank"), 130)
    learner = Learner(log)
    assert learner.step() == 130
    monkeypatch.setattr("perturank.service.learner.state.READ_AT_ONCE", 64)
    again = rebuild(log, "m")
    assert again.differs is None
    assert small.same_bits(again.state.ranker, learner.states["m"].ranker)


def test_lists_that_vanish_before_they_are_learned_are_noticed(log: Log) -> None:
    created(log)
    names = lived(log, spec(), 2)
    learner = Learner(log)
    learner.catch_up()
    with log.transaction() as transaction:
        transaction.cut([], names[:1])
    with pytest.raises(NotReady, match="taken out of the log before they were learned"):
        learner.step()
