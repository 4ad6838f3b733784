"""Which states a learner holds in memory, and that it makes no difference to the bits."""

from __future__ import annotations

import pytest
from helpers.service_small import clicked, created, lived, served, spec

from perturank.service.learner import states
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.log import Log, snapshots
from perturank.service.log.records import Changed

MODELS = ("a", "b", "c", "d")


def made(log: Log, **changes: object) -> dict[str, int]:
    """Create the models and return their generations."""
    return {model: created(log, model, **changes) for model in MODELS}


def must_replay(log: Log, n_versions: int) -> None:
    """See that every version of every model is rebuilt to the same bits."""
    for model in MODELS:
        report = rebuild(log, model)
        assert (report.checked, report.differs) == (n_versions, None)


def test_states_that_are_too_many_are_stored_and_loaded_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MOST_STATES", 2)
    generations, chosen = made(log, ranker="p2linrank"), spec("p2linrank")
    learner = Learner(log)
    for turn in range(3):
        for model, generation in generations.items():
            lived(log, chosen, 2, 10 * turn, model, generation)
            assert learner.step() == 2
            assert len(learner.states) <= 2
    must_replay(log, 3)


def test_states_that_are_too_large_are_dropped_too(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MOST_BYTES", 0)
    generations = made(log)
    learner = Learner(log)
    for model, generation in generations.items():
        lived(log, spec(), 2, 0, model, generation)
    assert learner.step() == 8
    assert len(learner.states) == 0
    must_replay(log, 1)


def test_a_restart_loads_the_models_that_have_something_new(log: Log) -> None:
    generations = made(log)
    first = Learner(log)
    for model, generation in generations.items():
        lived(log, spec(), 2, 0, model, generation)
    first.step()
    first.close()
    second = Learner(log)
    assert second.position == log.tail()
    lived(log, spec(), 1, 20, "b", generations["b"])
    assert second.step() == 1
    assert list(second.states) == ["b"]
    assert second.states["c"].learned == 2


def test_a_model_that_nobody_used_is_loaded_with_its_changes(log: Log) -> None:
    generation = created(log)
    with log.transaction() as transaction:
        transaction.append("m", Changed(generation, spec(window=5.0)))
    first = Learner(log)
    first.step()
    first.close()
    assert log.names("m/state") == []  # there is nothing to store
    assert Learner(log).states["m"].spec == spec(window=5.0)


def test_a_learner_that_is_killed_after_it_dropped_states_loses_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "MOST_STATES", 1)
    generations = made(log)
    waiting = served(log, spec(), 40, "a", generations["a"])
    first = Learner(log)
    for model, generation in generations.items():
        lived(log, spec(), 2, 0, model, generation)
        first.step()
    clicked(log, waiting, 1, "a")
    second = Learner(log)
    assert second.step() == 1
    assert rebuild(log, "a").state.learned == 3
    for model in MODELS:
        assert rebuild(log, model).differs is None


def test_a_stored_state_that_is_gone_or_damaged_is_made_again_from_the_log(log: Log) -> None:
    generations = made(log)
    first = Learner(log)
    for model, generation in generations.items():
        lived(log, spec(), 2, 0, model, generation)
        first.step()
    first.close()
    with log.transaction() as transaction:
        transaction.remove(snapshots.state_name("a"))
        transaction.store(snapshots.state_name("b"), b"damaged")
    second = Learner(log)
    for model, generation in generations.items():
        lived(log, spec(), 1, 20, model, generation)
    assert second.step() == 4
    must_replay(log, 2)


def test_one_model_of_each_kind_is_loaded_before_the_first_click(log: Log) -> None:
    made(log)
    created(log, "other", ranker="p2linrank")
    first = Learner(log)
    first.step()
    first.close()
    second = Learner(log)
    second.states.load_one_of_each_kind()
    assert len(second.states) == 2
