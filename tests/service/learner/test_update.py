from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import small
from helpers.service_small import PLACES, impression, rows, spec

from perturank.core import Query
from perturank.service.learner import update
from perturank.service.log.records import packed

MANY = [update.Rewarded(i, impression(i), {"b": 1.0}) for i in range(5)]


@pytest.mark.parametrize("ranker", ["p2linrank", "epsilon-greedy-linear"])
def test_a_batch_fits_once_and_remembers_what_its_lists_say_one_by_one(ranker: str) -> None:
    start = spec(ranker).start()
    at_once: Any = update.learn_from(start, MANY, seed=1, learned=0, places=PLACES)
    one_by_one: Any = start
    for i, each in enumerate(MANY):
        one_by_one = update.learn_from(one_by_one, [each], seed=1, learned=i, places=PLACES)
    if ranker == "p2linrank":
        assert small.same_bits(at_once.history, one_by_one.history)
        assert not small.same_bits(at_once.theta, one_by_one.theta)  # the noise of one fit, not of five
    else:
        assert small.same_bits(at_once, one_by_one)


def test_a_list_that_would_ruin_the_ranker_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    start = spec("p2linrank").start()
    huge = msgspec.structs.replace(impression(), packed=packed(rows() * np.float32(1e30), None, []))
    ruinous = update.Rewarded(7, huge, {"b": 1.0})
    learned = update.learn_from(start, [*MANY[:2], ruinous, *MANY[2:]], seed=1, learned=0, places=PLACES)
    assert update.is_sound(learned)
    assert np.abs(learned.score(Query.of(rows()))).max() > 0
    assert [record.args for record in caplog.records] == [(7,)]


def test_a_ranker_grows_seldom_and_by_a_rule_of_the_log_alone() -> None:
    start = spec("p2linrank", settings={"memory": None}).start()
    grown = update.with_room(start, 1, 0, PLACES)
    assert update.shapes(grown) != update.shapes(start)
    assert update.shapes(update.with_room(grown, 64, 10, PLACES)) == update.shapes(grown)
    assert update.shapes(update.with_room_ahead(grown, 10, PLACES)) == update.shapes(grown)
    assert update.shapes(update.with_room_ahead(grown, 10_000_000, PLACES)) != update.shapes(grown)
    again = update.with_room(grown, 64, 1_000_000, PLACES)  # a million lists of the same few documents
    assert update.shapes(again) == update.shapes(grown)
    memoryless = spec("pdgd-linear").start()
    assert update.with_room(memoryless, 1000, 0, PLACES) is memoryless


def test_a_ranker_with_a_memory_never_grows() -> None:
    chosen = spec("p2linrank")
    assert chosen.settings["memory"] == 14_000
    grown = update.with_room(chosen.start(), 1, 0, PLACES)
    assert update.shapes(update.with_room_ahead(grown, 10_000_000, PLACES)) == update.shapes(grown)
    assert spec("p2linrank", settings={"memory": 99}).settings["memory"] == 99
    assert spec("p2linrank", settings={"memory": None}).settings["memory"] is None
