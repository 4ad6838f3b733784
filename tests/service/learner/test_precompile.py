"""Compiling ahead: clicks on a new model wait for one compilation, and other models do not."""

from __future__ import annotations

import threading
import time

import pytest
from helpers.service_small import clicked, created, lived, spec

from perturank.core import Ranker
from perturank.service.learner import update
from perturank.service.learner.learner import Learner
from perturank.service.learner.process import Precompiler
from perturank.service.log import Log

SECONDS = 60.0


def test_a_new_model_waits_for_its_program_while_others_learn(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling, compiled = threading.Event(), threading.Event()

    def slowly(*args: object, with_rewards: bool) -> None:
        compiling.set()
        assert compiled.wait(SECONDS)

    monkeypatch.setattr(update, "prepare", slowly)
    kinds = {"new": "p2linrank", "twin": "p2linrank", "other": "pdgd-linear"}
    generations = {name: created(log, name, ranker=kind) for name, kind in kinds.items()}
    learner, precompiler = Learner(log), Precompiler()
    learner.catch_up()
    precompiler.look(learner)
    assert compiling.wait(SECONDS)
    for name, kind in kinds.items():
        lived(log, spec(kind), 2, model=name, generation=generations[name])
    assert learner.step(precompiler.holds) == 2
    assert {name: state.learned for name, state in learner.states.items()} == {"new": 0, "twin": 0, "other": 2}
    compiled.set()
    while precompiler.holds(learner.states["new"]):
        time.sleep(0.01)
    assert learner.step(precompiler.holds) == 4


def test_a_model_whose_next_batch_needs_another_program_does_not_wait(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling, compiled = threading.Event(), threading.Event()

    def slowly(*args: object, with_rewards: bool) -> None:
        compiling.set()
        assert compiled.wait(SECONDS)

    monkeypatch.setattr(update, "prepare", slowly)
    grown = spec("p2linrank", settings={"memory": None})
    created(log, ranker="p2linrank", settings={"memory": None})
    learner, precompiler = Learner(log), Precompiler()
    lived(log, grown, 2)
    learner.step()
    monkeypatch.setattr(update, "n_ahead", lambda learned: 100_000)
    precompiler.look(learner)
    assert compiling.wait(SECONDS)
    lived(log, grown, 2, 5)
    assert learner.step(precompiler.holds) == 2  # while it is still being compiled
    compiled.set()


def test_what_will_be_needed_is_compiled_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    compile_really = update.prepare

    def count(ranker: Ranker, seed: int, places: int, *, with_rewards: bool) -> None:
        compiled.append(with_rewards)
        compile_really(ranker, seed, places, with_rewards=with_rewards)

    monkeypatch.setattr(update, "prepare", count)
    created(log)
    learner, precompiler = Learner(log), Precompiler()
    learner.catch_up()
    for _ in range(3):
        precompiler.look(learner)
        while precompiler.is_busy:
            time.sleep(0.01)
    assert compiled == [False]
    (name,) = lived(log, spec(), 1)
    clicked(log, name, 2)  # more than clicks that are learned once
    learner.catch_up()
    for _ in range(3):
        precompiler.look(learner)
        while precompiler.is_busy:
            time.sleep(0.01)
    assert compiled == [False, True]
