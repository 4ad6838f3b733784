from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
from helpers.service_small import IDS, shown

from perturank.service.log import Log, Transaction
from perturank.service.log.feedback import record_feedback
from perturank.service.log.group_commit import Committer
from perturank.service.log.records import Closed
from perturank.service.log.refusals import LogFull, NotReady, Refused


@pytest.fixture
def committer(log: Log) -> Iterator[Committer]:
    made = Committer(log)
    yield made
    made.close()


def add(transaction: Transaction) -> int:
    return transaction.append("m", Closed(1))


def refuse(transaction: Transaction) -> int:
    raise Refused("no")


def fail(transaction: Transaction) -> int:
    transaction.append("m", Closed(1))
    raise ZeroDivisionError


def together(committer: Committer, *actions: Any) -> list[Future[Any]]:
    """Submit so that all share a transaction: the writer is held up until they wait."""
    gate, busy = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        busy.set()
        gate.wait()

    held = committer.submit(hold)
    busy.wait()
    futures = [committer.submit(action) for action in actions]
    gate.set()
    wait([held, *futures])
    return futures


def test_actions_run_in_order_and_their_positions_follow(committer: Committer) -> None:
    assert [future.result() for future in [committer.submit(add) for _ in range(50)]] == list(range(1, 51))


def test_many_requests_share_one_transaction(log: Log, committer: Committer, monkeypatch: pytest.MonkeyPatch) -> None:
    n_transactions = 0
    begin = log.transaction

    @contextmanager
    def counted() -> Iterator[Transaction]:
        nonlocal n_transactions
        n_transactions += 1
        with begin() as transaction:
            yield transaction

    monkeypatch.setattr(log, "transaction", counted)
    together(committer, *[add] * 100)
    assert n_transactions == 2
    assert log.tail() == 100


def test_a_refusal_leaves_the_others_of_its_transaction_alone(log: Log, committer: Committer) -> None:
    one, two, three = together(committer, add, refuse, add)
    assert (one.result(), three.result()) == (1, 2)
    with pytest.raises(Refused):
        two.result()
    assert log.tail() == 2


def test_a_failure_keeps_nothing_and_the_writer_goes_on(log: Log, committer: Committer) -> None:
    for future in together(committer, add, fail, add):
        with pytest.raises(ZeroDivisionError):
            future.result()
    assert log.tail() == 0
    assert committer.submit(add).result() == 1


@contextmanager
def held_up(committer: Committer) -> Iterator[None]:
    """Keep the writer busy for the block."""
    gate, busy = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        busy.set()
        gate.wait()

    committer.submit(hold)
    busy.wait()
    try:
        yield
    finally:
        gate.set()


def away(failure: Refused, tries: list[int]) -> Callable[[], NoReturn]:
    def transaction() -> NoReturn:
        tries.append(1)
        raise failure

    return transaction


@pytest.mark.parametrize("failure", [NotReady("the database went away"), LogFull("there is no room")])
def test_a_log_that_is_away_or_full_fails_all_that_wait_at_once(
    log: Log, committer: Committer, monkeypatch: pytest.MonkeyPatch, failure: Refused
) -> None:
    tries: list[int] = []
    with held_up(committer):
        monkeypatch.setattr(log, "transaction", away(failure, tries))
        futures = [committer.submit(add) for _ in range(1000)]
    assert {type(future.exception()) for future in futures} == {type(failure)}
    assert len(tries) == 1
    monkeypatch.undo()
    assert committer.submit(add).result() == 1


def test_a_writer_whose_log_is_away_can_be_closed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    committer = Committer(log)
    closing = threading.Thread(target=committer.close)
    with held_up(committer):
        monkeypatch.setattr(log, "transaction", away(NotReady("the database went away"), []))
        futures = [committer.submit(add) for _ in range(1000)]
        closing.start()
        with contextlib.suppress(NotReady):  # until it is closing
            while True:
                futures.append(committer.submit(add))
                time.sleep(0.01)
    closing.join()
    assert {type(future.exception()) for future in futures} == {NotReady}


def test_more_than_anybody_waits_for_is_refused(
    committer: Committer, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    monkeypatch.setattr("perturank.service.log.group_commit.MOST_WAITING", 10)
    with held_up(committer):
        futures = [committer.submit(add) for _ in range(10)]
        with pytest.raises(NotReady, match="too many requests wait"):
            committer.submit(add)
    assert [future.result() for future in futures] == list(range(1, 11))
    assert committer.submit(add).result() == 11


def test_what_nobody_waits_for_any_more_is_written_all_the_same(log: Log, committer: Committer) -> None:
    told: list[int] = []
    with held_up(committer):
        clicked = committer.submit(add, then=told.append)
        assert clicked.cancel()
    assert committer.submit(add).result() == 2
    assert told == [1]
    assert log.tail() == 2


def test_the_same_feedback_from_many_threads_is_recorded_once(log: Log, committer: Committer) -> None:
    name = shown(log)
    futures = [
        committer.submit(lambda transaction: record_feedback(transaction, "m", name, IDS[:1], True)) for _ in range(40)
    ]
    assert sorted(future.result() for future in futures) == ["known"] * 39 + ["recorded"]


def test_closing_finishes_what_was_submitted(log: Log) -> None:
    committer = Committer(log)
    futures = [committer.submit(add) for _ in range(20)]
    committer.close()
    assert [future.result() for future in futures] == list(range(1, 21))
    with pytest.raises(NotReady):
        committer.submit(add)


def test_what_is_submitted_while_it_closes_is_done(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(queue.SimpleQueue[Any]):
        """Lets somebody close the committer just before anything gets in."""

        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            if item is not None:
                closing.start()
                closing.join(0.1)
            super().put(item)

    monkeypatch.setattr(queue, "SimpleQueue", Slow)
    committer = Committer(log)
    closing = threading.Thread(target=committer.close)
    assert committer.submit(add).result(timeout=10) == 1
    closing.join()
    with pytest.raises(NotReady):
        committer.submit(add)
