"""The learner keeps the log small by itself."""

from __future__ import annotations

import pytest
from helpers.service_small import (
    NOTHING,
    closed,
    created,
    forget_state,
    learned,
    lived,
    n_impressions,
    spec,
)

from perturank.service.learner import retention
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Log, changes
from perturank.service.log.records import Compacted
from perturank.service.settings import Retention


def test_the_learner_keeps_the_log_small_by_itself(either: Log) -> None:
    created(either)
    learner = Learner(either, Retention(impressions=8))
    for turn in range(12):
        lived(either, spec(), 3, 3 * turn)
        closed(either)
        learner.step()
        assert min(3 * turn + 3, 8) <= n_impressions(either) <= 2 * (8 + 3)
    assert len(either.all_of("m", Compacted)) > 2
    report = rebuild(either, "m")
    assert (report.differs, report.state.learned) == (None, 36)
    assert list(faults(either)) == []
    forget_state(either)
    other = Learner(either, Retention(impressions=8))
    lived(either, spec(), 3, 50)
    other.step()
    assert rebuild(either, "m").differs is None


def test_a_look_deletes_pages_until_its_time_is_over(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    monkeypatch.setattr(retention, "SECONDS_TO_DELETE", 0.0)
    created(log)
    learner = learned(log, spec(), 6)
    assert retention.compact(log, "m", NOTHING) is not None
    learner.step()
    left = n_impressions(log)
    assert 12 < left < 18  # a page at least
    assert not learner.is_tidy
    learner.tidy()
    assert n_impressions(log) < left
    monkeypatch.setattr(retention, "SECONDS_TO_DELETE", 600.0)
    learner.step()
    assert (learner.is_tidy, n_impressions(log)) == (True, 0)


def test_the_learner_deletes_what_a_deleted_model_has_left(either: Log) -> None:
    created(either)
    learner = Learner(either, Retention(seconds=0))
    lived(either, spec(), 3)
    learner.step()
    with either.transaction() as transaction:
        changes.delete(transaction, "m")
    for _ in range(10):
        learner.step()
    assert learner.is_tidy
    assert n_impressions(either) == 0
    assert len(either.all_of("m", Compacted)) >= 1
    assert list(faults(either)) == []
    position = created(either)
    lived(either, spec(), 2, 40, generation=position)
    learner.step()
    assert (rebuild(either, "m").differs, learner.states["m"].learned) == (None, 2)


def test_a_source_that_is_erased_from_a_deleted_model_does_not_keep_the_rest(either: Log) -> None:
    created(either)
    learner = Learner(either, Retention(impressions=0))
    lived(either, spec(), 3)
    with either.transaction() as transaction:
        changes.delete(transaction, "m")
        changes.erase(transaction, "m", b"s" * 16)
    for _ in range(10):
        learner.step()
    assert learner.is_tidy
    assert n_impressions(either) == 0
    assert list(faults(either)) == []
    n = len(either.all_of("m", Compacted))
    Learner(either, Retention(impressions=0)).step()
    assert len(either.all_of("m", Compacted)) == n  # said once
