"""Compiling ahead: clicks on a new model wait for one compilation, and other models do not."""

from __future__ import annotations

import threading

import pytest
from service_small import created, lived, spec

from perturank.service import lessons
from perturank.service.foresight import Foresight
from perturank.service.learner import Learner
from perturank.service.log import Log

SECONDS = 60.0


def test_a_new_model_waits_for_its_program_while_others_learn(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling, compiled = threading.Event(), threading.Event()

    def slowly(*args: object) -> None:
        compiling.set()
        assert compiled.wait(SECONDS)

    monkeypatch.setattr(lessons, "prepare", slowly)
    kinds = {"new": "p2linrank", "twin": "p2linrank", "other": "pdgd-linear"}
    generations = {name: created(log, name, ranker=kind) for name, kind in kinds.items()}
    learner, foresight = Learner(log), Foresight()
    learner.catch_up()
    foresight.look(learner)
    assert compiling.wait(SECONDS)
    for name, kind in kinds.items():
        lived(log, spec(kind), 2, model=name, generation=generations[name])
    assert learner.step(foresight.holds) == 2
    assert {name: state.learned for name, state in learner.states.items()} == {"new": 0, "twin": 0, "other": 2}
    compiled.set()
    assert foresight._thread is not None
    foresight._thread.join()
    assert learner.step(foresight.holds) == 4


def test_a_model_whose_next_batch_needs_another_program_does_not_wait(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = threading.Event()
    monkeypatch.setattr(lessons, "prepare", lambda *args: compiled.wait(SECONDS))
    grown = spec("p2linrank", settings={"memory": None})
    created(log, ranker="p2linrank", settings={"memory": None})
    learner, foresight = Learner(log), Foresight()
    lived(log, grown, 2)
    learner.step()
    monkeypatch.setattr(lessons, "ahead", lambda learned: 100_000)
    foresight.look(learner)
    lived(log, grown, 2, 5)
    assert learner.step(foresight.holds) == 2
    assert foresight._thread is not None
    assert foresight._thread.is_alive()
    compiled.set()
    foresight._thread.join()
