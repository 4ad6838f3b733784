from __future__ import annotations

import threading
from pathlib import Path

import pytest
from service_small import (
    NOTHING,
    created,
    forget_state,
    learned,
    lived,
    n_impressions,
    spec,
)

from perturank.service import changing, compacting, keeping, resuming, running, snapshots
from perturank.service.entries import Compacted
from perturank.service.leading import Superseded
from perturank.service.learner import Learner
from perturank.service.log import Log
from perturank.service.log.sqlite import SqliteLog
from perturank.service.replaying import rebuilt
from perturank.service.retention import Retention
from perturank.service.state import Recall, State
from perturank.service.verifying import faults


def test_one_that_has_lost_its_place_takes_nothing_out_and_lays_no_base(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(log)
    old = learned(log, spec(), 3)
    old.close()
    content = log.stored(snapshots.state_name("m"))
    resumed = resuming.resumed

    def meanwhile(log: Log, recall: Recall) -> dict[str, State]:
        with pytest.raises(Superseded):  # before the new one reads where it begins, nothing moves any more
            compacting.based(log, "m", content, 0, guard=old._lead.check)
        return resumed(log, recall)

    monkeypatch.setattr(resuming, "resumed", meanwhile)
    Learner(log)
    assert compacting.compact(log, "m", NOTHING) is not None
    with pytest.raises(Superseded):
        old.step()
    assert n_impressions(log) == 9


def test_records_are_taken_out_by_who_leads_alone(tmp_path: Path) -> None:
    log, leader = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "log.db")
    created(log)
    learner = learned(leader, spec(), 2)
    assert leader.try_to_lead()
    assert compacting.compact(log, "m", NOTHING) is not None
    assert not compacting.swept(log, ["m"], 0)
    assert n_impressions(log) == 6
    while learner.step() or not learner.is_tidy:
        pass
    assert compacting.swept(log, ["m"], 0)
    assert n_impressions(log) == 0
    lived(log, spec(), 3, 20)
    learner.step()
    leader.close()
    assert compacting.compact(log, "m", NOTHING) is not None
    assert compacting.swept(log, ["m"], 0)  # nobody else leads
    assert n_impressions(log) == 0
    log.close()


def test_the_learner_keeps_the_log_small_by_itself(either: Log) -> None:
    created(either)
    learner = Learner(either, Retention(impressions=8))
    for turn in range(12):
        lived(either, spec(), 3, 3 * turn)
        learner.step()
        assert n_impressions(either) <= 8 + 8 // 4 + 2 * 3
    assert len(either.all_of("m", Compacted)) > 3
    assert len(either.names(snapshots.mark_prefix("m"))) <= 6
    report = rebuilt(either, "m")
    assert (report.differs, report.state.learned) == (None, 36)
    assert list(faults(either)) == []
    forget_state(either)
    other = Learner(either, Retention(impressions=8))
    lived(either, spec(), 3, 50)
    other.step()
    assert rebuilt(either, "m").differs is None


def test_a_look_takes_out_pages_until_its_time_is_over_and_rest_is_used_for_more(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "AT_ONCE", 2)
    monkeypatch.setattr(keeping, "SECONDS_TO_SWEEP", 0.0)
    created(log)
    learner = learned(log, spec(), 6)
    assert compacting.compact(log, "m", NOTHING) is not None
    learner.step()
    left = n_impressions(log)
    assert 12 < left < 18  # a page at least
    assert not learner.is_tidy
    stop = threading.Event()
    assert not running._rested(learner, stop, 1.0)  # type: ignore[arg-type]
    assert n_impressions(log) < left
    stop.set()
    assert running._rested(learner, stop, 600.0)  # type: ignore[arg-type]
    monkeypatch.setattr(keeping, "SECONDS_TO_SWEEP", 600.0)
    learner.step()
    assert (learner.is_tidy, n_impressions(log)) == (True, 0)


def test_the_learner_takes_out_what_a_deleted_model_has_left(either: Log) -> None:
    created(either)
    learner = Learner(either, Retention(seconds=0))
    lived(either, spec(), 3)
    learner.step()
    with either.transaction() as transaction:
        changing.delete(transaction, "m")
    for _ in range(10):
        learner.step()
    assert learner.is_tidy
    assert n_impressions(either) == 0
    assert len(either.all_of("m", Compacted)) >= 1
    assert list(faults(either)) == []
    position = created(either)
    lived(either, spec(), 2, 40, generation=position)
    learner.step()
    assert (rebuilt(either, "m").differs, learner.states["m"].learned) == (None, 2)


def test_a_source_that_is_erased_from_a_deleted_model_does_not_keep_the_rest(either: Log) -> None:
    created(either)
    learner = Learner(either, Retention(impressions=0))
    lived(either, spec(), 3)
    with either.transaction() as transaction:
        changing.delete(transaction, "m")
        changing.erase(transaction, "m", b"s" * 16)
    for _ in range(10):
        learner.step()
    assert learner.is_tidy
    assert n_impressions(either) == 0
    assert list(faults(either)) == []
    n = len(either.all_of("m", Compacted))
    Learner(either, Retention(impressions=0)).step()
    assert len(either.all_of("m", Compacted)) == n  # said once
