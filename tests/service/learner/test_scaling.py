from __future__ import annotations

import numpy as np
import pytest
from helpers import small
from helpers.service_small import bits, created, lived, must_be_learned_anew, rows, served, spec
from oracles import scale as oracle

from perturank.core import Query
from perturank.parts.standardised import Scale, Standardised
from perturank.service.learner import update
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import matches_stored, rebuild
from perturank.service.learner.state import MOST_TO_SCALE
from perturank.service.log import Log, changes, snapshots
from perturank.service.log.records import RolledBack, Scaled, source_seal, unpacked
from perturank.service.settings import Retention


def scales(log: Log) -> list[Scaled]:
    return [record.entry for record in log.control_records() if isinstance(record.entry, Scaled)]


def ranker_of(learner: Learner) -> Standardised:
    ranker = learner.states["m"].ranker
    assert isinstance(ranker, Standardised)
    return ranker


@pytest.mark.parametrize("ranker", ["p2headrank", "p2linrank", "pdgd-linear", "dbgd-linear"])
def test_a_replay_meets_every_bit_while_the_scale_is_estimated(log: Log, ranker: str) -> None:
    chosen = spec(ranker, scaling="auto")
    created(log, ranker=ranker, scaling="auto")
    learner = Learner(log)
    for n, start in ((1, 0), (2, 1), (6, 3)):
        lived(log, chosen, n, start)
        assert learner.step() == n
    assert [scaled.n for scaled in scales(log)] == [1, 2, 8]
    report = rebuild(log, "m")
    assert (report.checked, report.differs) == (3, None)
    assert matches_stored(log, report)
    assert small.same_bits(report.state.ranker, learner.states["m"].ranker)


def test_the_scale_is_that_of_what_was_shown(log: Log) -> None:
    created(log, scaling="auto")
    lived(log, spec(scaling="auto"), 4)
    learner = Learner(log)
    learner.step()
    found, state = ranker_of(learner), learner.states["m"]
    shown = np.concatenate([unpacked(each.packed, None)[0] for each in state.recall.shown(state.shown_first)])
    for i in range(5):
        location, spread = oracle.location_and_spread(shown[:, i].astype(float).tolist())
        assert float(found.location[i]) == pytest.approx(location, rel=1e-4, abs=1e-6)
        assert float(found.spread[i]) == pytest.approx(spread, rel=1e-4)
    assert float(found.spread[5]) == 1.0  # there was no prior


def test_what_was_learned_is_learned_again_at_the_new_scale(log: Log) -> None:
    chosen = spec("pairrank", scaling="auto")
    created(log, ranker="pairrank", scaling="auto")
    learner = Learner(log)
    for n, start in ((1, 0), (2, 1), (1, 3)):
        lived(log, chosen, n, start)
        learner.step()
    state, last = learner.states["m"], scales(log)[-1]
    assert (last.n, state.learned) == (4, 4)
    # The oracle: one fit to all four lists at the last scale, which is convex and draws nothing.
    fresh = chosen.start()
    assert isinstance(fresh, Standardised)
    at_once = fresh.with_scale(Scale(np.array(last.location), np.array(last.spread)))
    lists = zip(state.recall.shown(state.shown_first), range(4), strict=True)
    told = [update.Rewarded(1, shown, {shown.ids[seed % 4]: 1.0}) for shown, seed in lists]
    fitted = update.learn_from(at_once, told, seed=chosen.seed, learned=0, places=chosen.places)
    query = Query.of(rows(6, 50))
    np.testing.assert_allclose(ranker_of(learner).score(query), fitted.score(query), rtol=1e-3, atol=1e-4)


def test_after_a_thousand_impressions_the_scale_stays(log: Log) -> None:
    chosen = spec(scaling="auto")
    created(log, scaling="auto")
    content = served(log, chosen, 0)
    with log.transaction() as transaction:
        entry = transaction.about(content)[0].entry
        for i in range(MOST_TO_SCALE + 5):
            transaction.append("m", entry, f"name-{i:011d}".encode())
    learner = Learner(log)
    learner.step()
    assert [(scaled.n, scaled.is_last) for scaled in scales(log)] == [(MOST_TO_SCALE, True)]
    state = learner.states["m"]
    assert (state.is_scale_open, state.shown_first, state.taught) == (False, [], [])


@pytest.mark.parametrize("what", ["rolled back", "erased"])
def test_the_scale_stays_when_its_first_impressions_are_not_all_there_is(log: Log, what: str) -> None:
    chosen = spec("p2linrank", scaling="auto")
    created(log, ranker="p2linrank", scaling="auto")
    learner = Learner(log)
    for turn in range(2):
        lived(log, chosen, 2, 2 * turn, source=f"s{turn}")
        learner.step()
    with log.transaction() as transaction:
        if what == "erased":
            changes.erase(transaction, "m", source_seal("s0", log.secret))
        else:
            transaction.append("m", RolledBack(1))
    before = len(scales(log))
    learner.step()
    lived(log, chosen, 12, 6)
    learner.step()
    assert len(scales(log)) == before
    report = rebuild(log, "m")
    assert report.differs is None
    assert small.same_bits(report.state.ranker, learner.states["m"].ranker)


def test_retention_ends_the_scaling_of_old_impressions_and_replay_begins_at_the_base(log: Log) -> None:
    chosen = spec("p2linrank", scaling="auto")
    created(log, ranker="p2linrank", scaling="auto")
    learner = Learner(log, Retention(impressions=6))
    for turn in range(8):
        lived(log, chosen, 3, 3 * turn)
        learner.step()
    assert scales(log)[-1].is_last
    for _ in range(4):
        learner.step()
    report = rebuild(log, "m")
    assert report.begins > 0
    assert report.differs is None
    assert snapshots.digest(report.ranker, whole=True) == bits(learner)
    waiting = served(log, chosen, 90)
    learner.step()
    must_be_learned_anew(log, waiting)


def test_a_restart_goes_on_while_the_scale_is_estimated(log: Log) -> None:
    chosen = spec("p2linrank", scaling="auto")
    created(log, ranker="p2linrank", scaling="auto")
    first = Learner(log)
    lived(log, chosen, 3)
    first.step()
    first.close()
    second = Learner(log)
    assert len(second.states["m"].taught) == 3
    lived(log, chosen, 2, 3)
    second.step()
    assert scales(log)[-1].n == 4
    report = rebuild(log, "m")
    assert report.differs is None
    assert snapshots.digest(report.ranker, whole=True) == bits(second)
