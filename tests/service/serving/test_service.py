from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers.service_small import IDS, created, rows, shown, spec

from perturank.service.log import Log, Transaction
from perturank.service.log.candidates import candidates_of
from perturank.service.log.feedback import close_windows
from perturank.service.log.records import Closed, Entry, Impression, Settled, query_seal, verify_id
from perturank.service.log.refusals import LogFull
from perturank.service.log.sql import SqlTransaction
from perturank.service.serving.service import GRAIN, Service, Settling, Windows
from perturank.service.settings import ServeSettings
from perturank.wire import requests
from perturank.wire.requests import ListFeedback


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_window_is_over_its_length_after_the_impression_and_is_said_until_it_is_closed() -> None:
    clock = Clock()
    windows = Windows(clock)
    windows.note("m", 5)
    clock.now += 9
    windows.note("m", 8)
    assert windows.due("m", 10) is None
    clock.now += 1 + GRAIN
    assert windows.due("m", 10) == 5
    assert windows.due("m", 10) == 5  # until it is closed
    windows.forget("m", 5)
    assert windows.due("m", 10) is None
    assert windows.due("n", 10) is None
    clock.now += 100
    assert windows.due("m", 10) == 8
    windows.forget("m", 8)
    assert windows.due("m", 10) is None


def test_impressions_close_together_are_remembered_as_one() -> None:
    clock = Clock()
    windows = Windows(clock)
    for position in range(1000):
        windows.note("m", position)
        clock.now += 0.01
    clock.now += 10
    assert len({windows.due("m", seconds / 100) for seconds in range(2100)} - {None}) <= 11
    first = windows.due("m", 10 + GRAIN)
    assert first is not None
    assert first < 999
    windows.forget("m", first)
    clock.now += 100
    assert windows.due("m", 10) == 999


def test_the_service_closes_windows_in_the_log(log: Log) -> None:
    position = created(log, window=10.0)
    shown(log)
    service, clock = Service(log, ServeSettings()), Clock()
    service.windows = Windows(clock)
    service.windows.note("m", 2)
    service.complete_impressions()
    clock.now += 12
    for _ in range(3):
        service.complete_impressions()
        service.refresh()
        clock.now += 100
    assert [record.entry for record in log.control_records(after=position)] == [Closed(2)]  # nothing is closed twice
    assert service.models.get("m").spec == spec(window=10.0)
    service.close()


def test_a_list_whose_writing_fails_starts_no_window(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    created(log)
    service = Service(log, ServeSettings())
    service.windows = Windows(Clock())
    loaded = service.models.get("m")

    def fails(transaction: Transaction) -> None:
        raise LogFull("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(SqlTransaction, "finish", fails)
        with pytest.raises(LogFull):
            service.rank(loaded, IDS, rows(), None).result()
    assert service.windows.due("m", -GRAIN) is None
    service.rank(loaded, IDS, rows(), None).result()
    assert service.windows.due("m", -GRAIN) == log.tail() == 2
    service.close()


def test_a_list_for_which_nobody_waits_any_more_has_its_window_too(log: Log) -> None:
    created(log)
    service = Service(log, ServeSettings())
    service.windows = Windows(Clock())
    loaded, begun, go_on = service.models.get("m"), threading.Event(), threading.Event()

    def slow(transaction: Transaction) -> None:
        begun.set()
        go_on.wait()

    service.committer.submit(slow)
    begun.wait()
    asked = service.rank(loaded, IDS, rows(), None)
    service.committer.submit(lambda transaction: asked.cancel())  # when it is written, and not yet durable
    go_on.set()
    service.close()
    assert asked.cancelled()
    assert service.windows.due("m", -GRAIN) == log.tail() == 2


def test_windows_that_cannot_be_closed_stop_no_other_and_are_closed_later(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    for model in ("a", "b"):
        created(log, model, window=10.0)
    service, clock = Service(log, ServeSettings()), Clock()
    service.windows = Windows(clock)
    for model in ("a", "b"):
        service.windows.note(model, shown_at(log, model))
    clock.now += 100

    def only_b(transaction: Transaction, model: str, position: int) -> int | None:
        if model == "a":
            raise LogFull("the disk is full")
        return close_windows(transaction, model, position)

    with monkeypatch.context() as patched:
        patched.setattr("perturank.service.serving.service.close_windows", only_b)
        with pytest.raises(LogFull):
            service.complete_impressions()
    assert closings(log) == [("b", Closed(4))]
    service.complete_impressions()
    service.complete_impressions()
    assert closings(log) == [("b", Closed(4)), ("a", Closed(3))]
    service.close()


def test_events_settle_some_time_after_the_last_one() -> None:
    clock = Clock()
    settling = Settling(clock)
    settling.note("m", b"x")
    clock.now += 20
    settling.note("m", b"y")
    settling.note("m", b"x")  # its time begins again
    clock.now += 20
    assert settling.due("m", 30) == {}
    clock.now += 10
    due = settling.due("m", 30)
    assert set(due) == {b"x", b"y"}
    assert settling.due("m", 30) == due  # until they are forgotten
    settling.note("m", b"y")  # while the others are written
    settling.forget("m", due)
    assert set(settling.due("m", 0)) == {b"y"}
    assert settling.due("n", 0) == {}


def test_the_service_settles_events_in_the_log_in_one_record_each_look(log: Log) -> None:
    created(log, settle=30.0)
    service, clock = Service(log, ServeSettings()), Clock()
    service.settling = Settling(clock)
    loaded = service.models.get("m")
    names = [service.rank(loaded, IDS, rows(), None).result().impression for _ in range(4)]
    given = [
        ListFeedback(names[0], ["a"]),
        ListFeedback(names[1], events=[requests.Event("b", "purchase", 9.5)]),
        ListFeedback(names[2], ["c"], final=True),  # it has settled
        ListFeedback(names[3], seen=2),  # nothing was done
    ]
    for said in (*given, given[0]):
        service.feedback("m", said).result()
    service.complete_impressions()
    assert settled(log) == []
    clock.now += 30
    service.complete_impressions()
    service.complete_impressions()
    assert settled(log) == [Settled([verify_id(name, "m", log.secret) for name in names[:2]])]
    service.close()


def settled(log: Log) -> list[Entry]:
    return [record.entry for record in log.control_records() if isinstance(record.entry, Settled)]


def shown_at(log: Log, model: str) -> int:
    shown(log, model=model)
    return log.tail()


def closings(log: Log) -> list[tuple[str, Entry]]:
    return [(record.model, record.entry) for record in log.control_records() if isinstance(record.entry, Closed)]


def test_an_impression_keeps_what_other_rankers_are_judged_by(log: Log) -> None:
    created(log, ranker="random", candidates=1.0, keep_query=True)
    created(log, model="quiet", ranker="random", candidates=0.0)
    service = Service(log, ServeSettings())
    try:
        features, prior = rows(6), np.arange(6, dtype=np.float32)
        names = [f"d{row}" for row in range(6)]
        for model in ("m", "quiet"):
            loaded = service.models.get(model)
            for mode in ("learn", "exploit"):
                service.rank(loaded, names, features, prior, mode=mode, query="red shoes").result()
    finally:
        service.close()
    entries = [record.entry for record in log.read() if isinstance(record.entry, Impression)]
    learn, exploit, quiet, _ = entries
    assert np.exp(learn.place_log_p or ()) == pytest.approx([1 / 6, 1 / 5, 1 / 4, 1 / 3])
    assert sum(learn.place_log_p or ()) == pytest.approx(learn.log_propensity or 0)
    assert (exploit.log_p, exploit.place_log_p) == (b"", [0.0] * 4)
    assert learn.query == exploit.query == quiet.query == query_seal("red shoes", log.secret)
    assert (learn.query_text, quiet.query_text) == ("red shoes", None)
    assert quiet.candidates is None
    found = candidates_of(learn)
    assert found is not None
    assert found.ids == names
    assert np.array_equal(found.features, features)
    assert found.prior is not None
    assert np.array_equal(found.prior, prior)
    assert [found.ids[row] for row in found.shown] == learn.ids
