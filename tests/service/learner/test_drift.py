from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import small
from helpers.service_small import PLACES, created, impression, spec

from perturank.core import Fades
from perturank.drift import Watch
from perturank.service.learner import drift, states
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import matches_stored, rebuild
from perturank.service.log import Log, changes, live_tests
from perturank.service.log.feedback import record_feedback
from perturank.service.log.records import Batch, Drifted, Impression, Record, new_id
from perturank.service.log.refusals import Refused

CERTAIN = np.zeros(PLACES, "<f4").tobytes()  # log-probabilities of agreeing with the best estimate
EXPLORED = np.log(np.full(1, 0.01, "<f4")).tobytes()


def clicked(log: Log, n: int, place: int | None, **changes: Any) -> None:
    """Show n lists of the best estimate and click this place of each."""
    with log.transaction() as transaction:
        for i in range(n):
            entry = impression(i % 5, agreed=CERTAIN, own_agreed=b"", **changes)
            name = new_id(log.tail())
            transaction.append("m", entry, name)
            record_feedback(transaction, "m", name, [] if place is None else [entry.ids[place]], True)


def pin(log: Log, version: int | None) -> None:
    with log.transaction() as transaction:
        changes.pin(log, transaction, "m", version)


def drifts(log: Log) -> list[Record]:
    return [record for record in log.control_records() if isinstance(record.entry, Drifted)]


def changed_wishes(log: Log, beside: str = "other", **changes: Any) -> Learner:
    """Let people click the first document of all lists, and then the last; return the learner."""
    created(log, ranker="p2linrank", **changes)
    created(log, beside)
    learner = Learner(log)
    clicked(log, 60, 0)
    learner.step()
    assert drifts(log) == []
    clicked(log, 30, 3)
    learner.step()
    return learner


def total_weight(learner: Learner) -> float:
    ranker: Any = learner.states["m"].ranker
    return float(ranker.history.total_weight)


def test_a_change_of_wishes_is_told_once_and_replay_tells_the_same(either: Log) -> None:
    learner = changed_wishes(either)
    (record,) = drifts(either)
    entry = record.entry
    assert isinstance(entry, Drifted)
    assert (entry.before, entry.after, entry.reaction) == (1.0, 0.25, "alarm")
    before = rebuild(either, "m", at=record.position - 1)
    assert before.state.watch.fall == (entry.lists, entry.before, entry.after)
    report = rebuild(either, "m")
    assert (report.differs, matches_stored(either, report)) == (None, True)
    assert report.state.watch == learner.states["m"].watch
    assert report.state.watch[1:] == Watch()[1:]
    assert report.state.watch.earlier >= 60 + entry.lists


def test_with_forget_what_was_seen_before_weighs_a_tenth_and_replay_meets_every_bit(either: Log) -> None:
    learner = changed_wishes(either, on_drift="forget")
    (record,) = drifts(either)
    seen = rebuild(either, "m", at=record.position - 1).ranker
    assert isinstance(seen, Fades)
    assert total_weight(learner) == pytest.approx(drift.FADED * float(seen.history.total_weight))  # type: ignore[attr-defined]
    clicked(either, 5, 3)
    learner.step()
    report = rebuild(either, "m")
    assert (report.differs, matches_stored(either, report)) == (None, True)
    assert small.same_bits(report.state.ranker, learner.states["m"].ranker)


def test_a_learner_that_begins_again_goes_on_watching(log: Log) -> None:
    created(log, ranker="p2linrank", on_drift="forget")
    first = Learner(log)
    clicked(log, 60, 0)
    clicked(log, 3, 3)
    first.step()
    first.close()
    second = Learner(log)
    assert second.states["m"].watch == first.states["m"].watch
    assert second.states["m"].watch.n == 63
    clicked(log, 27, 3)
    second.step()
    assert len(drifts(log)) == 1
    report = rebuild(log, "m")
    assert report.differs is None
    assert small.same_bits(report.state.ranker, second.states["m"].ranker)


def test_a_drift_that_was_found_and_not_written_is_written_after_a_restart(log: Log) -> None:
    created(log, ranker="p2linrank")
    first = Learner(log)
    clicked(log, 60, 0)
    first.step()
    clicked(log, 30, 3)
    with log.transaction() as transaction:  # what the learner writes before it ends
        transaction.append("m", Batch(log.tail(), 30, [], is_counted=True))
    first.catch_up()
    assert first.states["m"].has_drifted
    first.close()
    Learner(log).step()
    assert len(drifts(log)) == 1


def test_a_challenger_learns_beside_the_old_model_in_a_live_test(either: Log) -> None:
    changed_wishes(either, on_drift="challenger")
    with either.transaction() as transaction:
        found = transaction.find_model("m-challenger")
    assert found is not None
    assert (found.spec.ranker, found.spec.on_drift) == ("p2linrank", "alarm")
    test = live_tests.running(either)["m-drift"]
    assert (test.arms, test.learns) == (("m", "m-challenger"), "all")
    assert live_tests.replayed(either, "m-drift") == live_tests.required(either, "m-drift")
    assert rebuild(either, "m").differs is None


def test_a_model_that_has_the_challengers_name_stays_as_it_is(log: Log) -> None:
    changed_wishes(log, "m-challenger", on_drift="challenger")
    assert len(drifts(log)) == 1
    assert live_tests.running(log) == {}
    with log.transaction() as transaction:
        found = transaction.find_model("m-challenger")
    assert found is not None
    assert found.spec.ranker == "pdgd-linear"


def test_a_model_that_is_rolled_back_is_watched_anew(log: Log) -> None:
    created(log, ranker="p2linrank")
    learner = Learner(log)
    clicked(log, 60, 0)
    learner.step()
    with log.transaction() as transaction:
        changes.roll_back(log, transaction, "m", 1)
    learner.step()
    assert learner.states["m"].watch == Watch(earlier=60)


@pytest.mark.parametrize("version", [1, None])
def test_a_worse_version_that_is_served_after_a_pin_is_no_drift(log: Log, version: int | None) -> None:
    created(log, ranker="p2linrank", on_drift="forget")
    first = Learner(log)
    clicked(log, 60, 0)
    first.step()
    if version is None:
        pin(log, 1)
    clicked(log, 40, 0)  # these wait when the pin changes
    pin(log, version)
    first.catch_up()
    first.close()
    second = Learner(log)
    clicked(log, 60, 3)
    while second.step():
        pass
    assert drifts(log) == []
    report = rebuild(log, "m")
    assert report.state.watch == second.states["m"].watch
    assert report.state.watch[:2] == (60, 60)
    assert small.same_bits(report.state.ranker, second.states["m"].ranker)


def test_a_state_that_was_dropped_from_memory_knows_of_the_pin(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    created(log, ranker="p2linrank")
    learner = Learner(log)
    clicked(log, 60, 0)
    learner.step()
    learner.states.store(learner.states["m"])
    monkeypatch.setattr(states, "MOST_STATES", 0)
    pin(log, 1)
    learner.step()
    assert len(learner.states) == 0
    assert learner.states["m"].watch == Watch(earlier=60)


@pytest.mark.parametrize(
    "changed, worth, signal",
    [
        ({"agreed": CERTAIN}, {"b": 1.0}, 1 / 2),
        ({"agreed": EXPLORED}, {"b": 1.0}, (0 + 1 - drift.MOST_WEIGHT / 2) / 2),  # the first place was seen in vain
        ({"agreed": b""}, {"b": 1.0}, 1 / 2),  # another list than the best estimate's says nothing of it
        ({"agreed": None, "mode": "exploit"}, {"c": 1.0}, 1 / 3),
        ({"agreed": CERTAIN}, {}, None),
        ({"agreed": CERTAIN}, {"a": -1.0}, None),
        ({"agreed": CERTAIN, "mode": "own"}, {"b": 1.0}, None),
        ({"agreed": CERTAIN, "own_agreed": None}, {"b": 1.0}, None),
        ({"agreed": CERTAIN, "earlier": [b"page"]}, {"b": 1.0}, None),
    ],
)
def test_a_list_with_a_click_says_where_it_stood_in_the_best_estimate(
    changed: dict[str, Any], worth: dict[str, float], signal: float | None
) -> None:
    shown: Impression = impression(**{"own_agreed": b""} | changed)
    found = drift.signal(shown, worth)
    assert found == (None if signal is None else pytest.approx(signal))


def test_a_ranker_without_a_memory_cannot_forget() -> None:
    with pytest.raises(Refused, match="no memory that could fade"):
        spec("pdgd-linear", on_drift="forget")
    assert spec("pdgd-linear", on_drift="challenger").on_drift == "challenger"
