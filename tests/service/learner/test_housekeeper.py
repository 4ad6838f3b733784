"""The learner keeps the log small by itself."""

from __future__ import annotations

import time

import pytest
from helpers.service_small import (
    NOTHING,
    SECONDS,
    begun_test,
    closed,
    counted_in_test,
    created,
    forget_state,
    learned,
    lived,
    n_impressions,
    spec,
)

from perturank.service.learner import retention
from perturank.service.learner.lead import Lead
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Log, changes, live_tests
from perturank.service.log.records import Compacted, source_seal
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


def test_a_test_that_runs_keeps_lists_of_the_span_and_few_bases(either: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    monkeypatch.setattr(retention, "SECONDS_BETWEEN_TESTS", 0.0)
    monkeypatch.setattr(retention, "SECONDS_TO_DELETE", SECONDS)
    since, bases = begun_test(either), set[int]()
    housekeeper = retention.Housekeeper(either, Retention(seconds=2000), Lead.take(either).check)
    for turn in range(1, 121):
        now += 50 * 10**9
        counted_in_test(either, since)
        assert not housekeeper.look([])
        bases |= {record.position for record in either.all_of(live_tests.stream("t"), Compacted)}
        assert min(turn, 40) <= n_impressions(either) <= 46
    assert 10 < len(bases) < 30
    assert len(either.all_of(live_tests.stream("t"), Compacted)) < 12
    assert live_tests.replayed(either, "t") == live_tests.required(either, "t")
    assert list(faults(either)) == []


def test_lists_of_a_test_are_deleted_page_by_page(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    monkeypatch.setattr(retention, "SECONDS_TO_DELETE", 0.0)
    counted_in_test(log, begun_test(log), 12)
    housekeeper = retention.Housekeeper(log, Retention(seconds=0), Lead.take(log).check)
    assert housekeeper.look([])
    assert 8 < n_impressions(log) < 12
    while housekeeper.look([]):
        pass
    assert n_impressions(log) == 0
    assert list(faults(log)) == []


def test_a_source_that_was_erased_from_a_test_is_deleted_even_if_its_window_has_closed_since(
    either: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "SECONDS_BETWEEN_TESTS", 0.0)
    since = begun_test(either)
    counted_in_test(either, since, source="alice")
    with either.transaction() as transaction:
        live_tests.erase(transaction, source_seal("alice", either.secret), ["t"])
    assert len(live_tests.required(either, "t").erased) == 1
    counted_in_test(either, since, source="bob")
    assert live_tests.required(either, "t").erased == {}  # no list is left that must not count
    assert live_tests.replayed(either, "t") == live_tests.required(either, "t")
    housekeeper = retention.Housekeeper(either, None, Lead.take(either).check)
    for _ in range(5):
        housekeeper.look([])
    assert n_impressions(either) == 1
    assert len(either.all_of(live_tests.stream("t"), Compacted)) == 1  # said once
    assert list(faults(either)) == []
