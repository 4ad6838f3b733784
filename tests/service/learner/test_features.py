from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from helpers import small
from helpers.service_small import PLACES, clicked, shown

from perturank.core import Query, Ranker
from perturank.parts.standardised import Standardised
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import matches_stored, rebuild
from perturank.service.learner.state import ENOUGH_TO_SCALE
from perturank.service.log import Log, changes
from perturank.service.log.records import Impression, RolledBack, Scaled, packed
from perturank.service.log.spec import Spec, checked_spec
from perturank.service.serving.models import LoadedModels
from perturank.service.settings import Retention
from perturank.wire.specification import Feature, SpecRequest

RANKERS = ["p2headrank", "p2linrank", "p2neurrank", "pairrank", "pdgd-neural", "dbgd-linear", "olranknet-diag"]
WIDTHS = {"p2headrank": [4], "p2neurrank": [4, 4], "pdgd-neural": [4, 4], "olranknet-diag": [4, 4]}


def spec(ranker: str, *features: str | Feature, **changes: Any) -> Spec:
    named = tuple(Feature(each) if isinstance(each, str) else each for each in features)
    settings = {"widths": WIDTHS[ranker]} if ranker in WIDTHS else {}
    request = SpecRequest(
        n_features=len(named), features=named, ranker=ranker, settings=settings, places=PLACES, **changes
    )
    return checked_spec(request)


def put(log: Log, new: Spec) -> Spec:
    """Make or change the model m, which must go on, and return it as the log has it."""
    with log.transaction() as transaction:
        changes.put(transaction, "m", new)
        return transaction.require_model("m").spec


def documents(n_features: int, seed: int, n: int = 6) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=(n, n_features)) * [10.0**i for i in range(n_features)]).astype(
        np.float32
    )


def show(log: Log, model: Spec, seed: int) -> bytes:
    rows = documents(model.n_features, seed)
    ranking = model.start().rank(Query.of(rows), jax.random.key(seed), PLACES)
    memo = [np.asarray(leaf) for leaf in jax.tree.leaves(ranking.memo)]
    content = packed(rows[ranking.documents], None, memo)
    ids = [f"d{row}" for row in ranking.documents]
    return shown(log, Impression(1, 0, "learn", ids, None, content))


def live(log: Log, model: Spec, n: int, start: int = 0) -> None:
    for seed in range(start, start + n):
        clicked(log, show(log, model, seed), seed % PLACES)


def scores(ranker: Ranker | None, rows: np.ndarray) -> np.ndarray:
    assert ranker is not None
    return np.asarray(ranker.score(Query.of(rows, may_miss=True)))[: len(rows)]


def check_replay(log: Log, learner: Learner) -> None:
    report = rebuild(log, "m")
    assert report.differs is None
    assert matches_stored(log, report)
    assert small.same_bits(report.state.ranker, learner.states["m"].ranker)


def served(log: Log) -> Ranker:
    models = LoadedModels(log, 10)
    models.refresh()
    assert models.get("m").fault is None
    return models.get("m").ranker


@pytest.mark.parametrize("ranker", RANKERS)
def test_a_feature_that_is_added_changes_no_score_and_is_learned_from_then_on(log: Log, ranker: str) -> None:
    model = put(log, spec(ranker, "a", "b", "c"))
    learner = Learner(log)
    live(log, model, 6)
    learner.step()
    waiting = show(log, model, 6)
    rows = documents(3, 99)
    before = scores(learner.states["m"].ranker, rows)
    assert np.ptp(before) > 0

    model = put(log, spec(ranker, "a", "new", "b", "c"))
    wider = np.column_stack([rows[:, :1], np.full(len(rows), np.nan), rows[:, 1:]])
    np.testing.assert_allclose(scores(served(log), wider), before, rtol=1e-5, atol=1e-6)  # before the learner read it
    learner.step()
    assert (learner.states["m"].version, learner.states["m"].generation) == (2, 1)
    for each in (learner.states["m"].ranker, served(log)):
        np.testing.assert_allclose(scores(each, wider), before, rtol=1e-5, atol=1e-6)
        wider[:, 1] = [5.0, -3.0, 2.0, 0.0, 1.0, -9.0]  # its weight is zero
        np.testing.assert_allclose(scores(each, wider), before, rtol=1e-5, atol=1e-6)

    clicked(log, waiting, 1)  # shown when there were three features
    assert learner.step() == 1
    live(log, model, 8, 7)
    assert learner.step() == 8
    other = wider.copy()
    other[:, 1] = 0.0
    assert not np.allclose(scores(learner.states["m"].ranker, wider), scores(learner.states["m"].ranker, other))
    check_replay(log, learner)


@pytest.mark.parametrize("ranker", ["p2headrank", "p2linrank", "pdgd-neural"])
def test_a_feature_that_is_dropped_is_taken_at_its_mean(log: Log, ranker: str) -> None:
    model = put(log, spec(ranker, "a", "b", "c"))
    learner = Learner(log)
    live(log, model, 8)
    learner.step()
    rows = documents(3, 99)
    rows[:, 1] = np.nan
    before = scores(learner.states["m"].ranker, rows)
    model = put(log, spec(ranker, "a", "c"))
    learner.step()
    for each in (learner.states["m"].ranker, served(log)):
        np.testing.assert_allclose(scores(each, rows[:, [0, 2]]), before, rtol=1e-5, atol=1e-6)
    live(log, model, 3, 8)
    learner.step()
    check_replay(log, learner)


def test_features_are_renamed_and_moved_and_the_same_change_again_changes_nothing(log: Log) -> None:
    model = put(log, spec("p2linrank", "a", "b", "c"))
    learner = Learner(log)
    live(log, model, 8)
    learner.step()
    rows = documents(3, 99)
    before = scores(learner.states["m"].ranker, rows)
    wanted = spec("p2linrank", "c", Feature("euros", was="a"), "b")
    model = put(log, wanted)
    assert model.features == (Feature("c"), Feature("euros"), Feature("b"))
    tail = log.tail()
    put(log, wanted)
    assert log.tail() == tail
    learner.step()
    ranker = learner.states["m"].ranker
    assert isinstance(ranker, Standardised)
    assert ranker.names == ("c", "euros", "b")
    np.testing.assert_allclose(scores(ranker, rows[:, [2, 0, 1]]), before, rtol=1e-5, atol=1e-6)
    live(log, model, 3, 8)
    learner.step()
    check_replay(log, learner)


def test_the_scale_of_a_feature_that_came_late_is_estimated_once(log: Log) -> None:
    model = put(log, spec("pdgd-linear", "a", "b"))
    learner = Learner(log)
    live(log, model, 2)
    learner.step()
    with log.transaction() as transaction:
        transaction.append("m", RolledBack(1))  # ends the estimation of the scale
    learner.step()
    before = learner.states["m"].ranker
    assert isinstance(before, Standardised)
    model = put(log, spec("pdgd-linear", "a", "b", "late"))
    for n, start in ((ENOUGH_TO_SCALE - 1, 2), (1, 80), (5, 90)):
        live(log, model, n, start)
        learner.step()
    scales = [record.entry for record in log.control_records() if isinstance(record.entry, Scaled)]
    assert [(each.n, each.is_last) for each in scales] == [(2, False), (ENOUGH_TO_SCALE, True)]
    after = learner.states["m"].ranker
    assert isinstance(after, Standardised)
    np.testing.assert_array_equal(np.asarray(after.spread)[[0, 1, 3]], np.asarray(before.spread))
    assert 50 < float(after.spread[2]) < 200  # drawn with a deviation of 100
    check_replay(log, learner)


def test_a_restart_and_a_base_know_which_features_a_waiting_list_was_shown_with(log: Log) -> None:
    model = put(log, spec("p2linrank", "a", "b"))
    learner = Learner(log, Retention(impressions=4))
    for turn in range(4):
        live(log, model, 3, 3 * turn)
        learner.step()
    waiting = [show(log, model, 50), show(log, model, 51)]
    model = put(log, spec("p2linrank", "b", "new", "a"))
    for turn in range(6):
        live(log, model, 3, 60 + 3 * turn)
        learner.step()
    learner.close()
    again = Learner(log)
    clicked(log, waiting[0], 1)
    assert again.step() == 1
    report = rebuild(log, "m")
    assert report.begins > 0
    assert report.differs is None
    assert small.same_bits(report.state.ranker, again.states["m"].ranker)


def test_a_roll_back_to_a_version_with_fewer_features_keeps_those_of_now(log: Log) -> None:
    model = put(log, spec("p2headrank", "a", "b"))
    learner = Learner(log)
    live(log, model, 4)
    learner.step()
    rows = documents(2, 99)
    before = scores(learner.states["m"].ranker, rows)
    model = put(log, spec("p2headrank", "new", "b", "a"))
    live(log, model, 4, 4)
    learner.step()
    with log.transaction() as transaction:
        changes.roll_back(log, transaction, "m", 1)
    learner.step()
    wider = np.column_stack([np.full(len(rows), np.nan), rows[:, ::-1]])
    np.testing.assert_allclose(scores(served(log), wider), before, rtol=1e-5, atol=1e-6)
    check_replay(log, learner)


@pytest.mark.parametrize(
    "features, says",
    [
        (("x", "y"), "keep none of its features"),
        ((Feature("a", scale=2.1), "b"), "another shift or scale"),
        (("a", "b"), "another shift or scale"),
    ],
)
def test_other_changes_of_features_begin_anew(features: Any, says: str) -> None:
    assert says in spec("p2linrank", *features).follow(spec("p2linrank", Feature("a", scale=2.0), "b"))[1]


def test_a_scale_that_is_the_same_but_for_rounding_goes_on() -> None:
    old = spec("p2linrank", Feature("a", shift=0.3, scale=2.0))
    assert spec("p2linrank", Feature("a", shift=0.1 + 0.2, scale=2.0)).follow(old)[1] == ""


def test_a_ranker_whose_arrays_are_packed_cannot_take_features() -> None:
    settings = {"widths": [4]}
    one, two = (
        checked_spec(SpecRequest(n_features=n, features=names, ranker="olranknet", settings=settings))
        for n, names in ((1, (Feature("a"),)), (2, (Feature("a"), Feature("b"))))
    )
    assert "cannot take more features" in two.follow(one)[1]
    assert one.follow(two)[1] == ""
