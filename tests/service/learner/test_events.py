"""Events, and when they are learned: settled, late, again after a restart, to the same bits."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import pytest
from helpers import small
from helpers.service_small import (
    NOTHING,
    PLACES,
    append,
    bits,
    closed,
    created,
    forget_state,
    n_impressions,
    rows,
    served,
    spec,
    versions,
)

from perturank.core import LEARNING, Interaction, Query, Rewards, streams
from perturank.service.learner import retention, update
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Log, changes
from perturank.service.log.feedback import record_feedback, settle
from perturank.service.log.records import Changed, Event, Impression, source_seal


def say(log: Log, name: bytes, place: int, action: str = "click", *, seen: int = 0, final: bool = False) -> str:
    """Let something be done with the document at this place."""
    with log.transaction() as transaction:
        entry = transaction.about(name)[0].entry
        assert isinstance(entry, Impression)
        model = transaction.require_model("m")
        events = [Event(entry.ids[place], action)]
        actions = model.spec.actions
        return record_feedback(transaction, "m", name, [], final, events=events, seen=seen, actions=actions)


def settle_all(log: Log, names: Sequence[bytes]) -> None:
    with log.transaction() as transaction:
        settle(transaction, "m", names)


@pytest.mark.parametrize("ranker", ["pdgd-linear", "p2headrank", "p2linrank"])
def test_a_replay_meets_every_bit_of_events_late_purchases_and_restarts(log: Log, ranker: str) -> None:
    chosen = spec(ranker)
    created(log, ranker=ranker, actions={"dismiss": -1.0})
    learner = Learner(log)
    names = [served(log, chosen, seed) for seed in range(6)]
    for place, name in enumerate(names[:4]):
        say(log, name, place, seen=place)
    settle_all(log, names[:4])
    assert learner.step() == 4
    say(log, names[0], 2, "purchase")
    say(log, names[1], 0, "dismiss")
    learner.close()
    learner = Learner(log)  # from its stored state, in which impressions wait
    assert learner.step() == 0  # neither has settled
    settle_all(log, names[:2])
    assert learner.step() == 2
    say(log, names[4], 1)  # nobody settles it
    say(log, names[2], 0, "add_to_cart", final=True)
    assert learner.step() == 1
    closed(log)
    assert learner.step() == 2  # the clicked one, and the one without an event
    assert say(log, names[5], 1) == "late"
    assert learner.step() == 0
    report = rebuild(log, "m")
    assert (report.checked, report.differs, report.state.learned) == (len(versions(log)), None, 9)
    assert small.same_bits(report.state.ranker, learner.states["m"].ranker)
    assert list(faults(log)) == []


def test_a_late_purchase_is_learned_as_what_it_adds(log: Log) -> None:
    """The oracle: `learn` called by hand with what was learned before."""
    chosen = spec("p2linrank")
    created(log, ranker="p2linrank")
    learner, name = Learner(log), served(log, chosen, 0)
    say(log, name, 1, final=True)
    learner.step()
    say(log, name, 2, "purchase", seen=3, final=True)
    learner.step()
    query, start = Query.of(rows(6, 0)), chosen.start()
    ranking = start.rank(query, jax.random.key(0), PLACES)
    clicked = Interaction.of(query, ranking, [int(ranking.documents[1])])
    keys = [jax.random.fold_in(streams(chosen.seed)[LEARNING], n) for n in (1, 2)]
    by_hand = update.with_room(start, 1, 0, PLACES).learn(clicked, keys[0])
    worth, learned = np.array([[0, 1, 10, 0], [0, 1, 0, 0]], np.float32)
    rewards = Rewards(*map(jax.numpy.asarray, (worth, np.int32(3), learned, np.int32(0))))
    by_hand = by_hand.learn(Interaction(clicked.shown, rewards.worth > 0, clicked.memo, rewards), keys[1])
    for found, expected in zip(small.arrays(learner.states["m"].ranker), small.arrays(by_hand), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_other_actions_let_learning_go_on_and_count_from_then_on(log: Log) -> None:
    found = []
    for worth in (10.0, -10.0):
        position = created(log)
        learner, name = Learner(log), served(log, spec(), 0, generation=position)
        say(log, name, 1, "purchase")
        with log.transaction() as transaction:
            assert not changes.put(transaction, "m", spec(actions={"purchase": worth}, settle=5.0))
        settle_all(log, [name])
        assert learner.step() == 1
        assert rebuild(log, "m").differs is None
        found.append(bits(learner))
    assert found[0] != found[1]


def test_the_cap_counts_impressions_and_nothing_more_is_learned_of_one_that_it_skips(log: Log) -> None:
    created(log, cap=1)
    learner = Learner(log)
    first, second = (served(log, spec(), seed, source="alice") for seed in (0, 1))
    for name in (first, second):
        say(log, name, 1)
    settle_all(log, [first, second])
    assert learner.step() == 1
    for name in (first, second):
        say(log, name, 2, "purchase", final=True)
    assert learner.step() == 1  # the first is the one that counts
    assert list(learner.states["m"].sources) == [source_seal("alice", log.secret)]
    report = rebuild(log, "m")
    assert (report.differs, report.state.learned) == (None, 2)


@pytest.mark.parametrize("batch", [1, 3, None])
def test_what_the_cap_skips_is_skipped_with_all_that_was_complete_of_it(log: Log, batch: int | None) -> None:
    created(log, cap=1, batch=batch)
    learner = Learner(log)
    names = [served(log, spec(), seed, source="alice") for seed in (0, 1)]
    for name in names:
        for place in range(3):
            say(log, name, place, final=True)
    while learner.step():
        pass
    report = rebuild(log, "m")
    assert (report.differs, report.state.learned) == (None, 3)


def test_an_impression_that_may_get_more_events_keeps_its_record(log: Log) -> None:
    created(log)
    learner, name = Learner(log), served(log, spec(), 0)
    say(log, name, 1, final=True)
    assert learner.step() == 1
    retention.compact(log, "m", NOTHING)
    for _ in retention.delete(log, "m", lambda transaction: None):
        pass
    assert n_impressions(log) == 1
    say(log, name, 2, "purchase", final=True)
    forget_state(log)
    learner = Learner(log)
    assert learner.step() == 1
    assert rebuild(log, "m").differs is None
    closed(log)
    other = served(log, spec(), 1)
    say(log, other, 1, final=True)
    settle_all(log, [other])
    assert learner.step() == 1
    retention.compact(log, "m", NOTHING)
    for _ in retention.delete(log, "m", lambda transaction: None):
        pass
    assert n_impressions(log) == 1  # the other one waits
    assert rebuild(log, "m").differs is None
    assert list(faults(log)) == []


def test_a_new_generation_learns_nothing_of_what_settles_after_it_began(log: Log) -> None:
    created(log)
    learner, name = Learner(log), served(log, spec(), 0)
    say(log, name, 1)
    append(log, Changed(0, spec(settings={"learning_rate": 0.5})))
    settle_all(log, [name])
    assert learner.step() == 0
