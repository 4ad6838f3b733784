"""Lists that a query_id names, and events whose client is their source, up to what is learned."""

from __future__ import annotations

import msgspec
from helpers.service_small import bits, closed, created, n_impressions, served, spec

from perturank.service.learner import retention
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Log
from perturank.service.log.feedback import settle
from perturank.service.log.records import Batch, Feedback, own_id
from perturank.service.log.ubi import record_event
from perturank.wire.ubi import EventRecord


def show(log: Log, seed: int, query: str) -> list[str]:
    """Show a list of a query, drawn by the fresh ranker; return its documents."""
    served(log, spec(), seed, name=own_id(query, "m", log.secret))
    return list(log.about([own_id(query, "m", log.secret)])[-1].entry.ids)  # type: ignore[union-attr]


def click(log: Log, query: str, document: str, client: str) -> str:
    about = {"object": {"object_id": document}}
    values = {"action_name": "click", "query_id": query, "client_id": client, "event_attributes": about}
    with log.transaction() as transaction:
        return record_event(transaction, "m", msgspec.convert(values, EventRecord), log.secret).status


def settle_all(log: Log, *queries: str) -> None:
    with log.transaction() as transaction:
        settle(transaction, "m", [own_id(query, "m", log.secret) for query in queries])


def test_the_cap_holds_for_a_client_and_replay_meets_the_bits(either: Log) -> None:
    created(either, cap=2)
    learner = Learner(either)
    assert click(either, "early", "d0", "bot") == "early"  # before the list, and it settles before it too
    settle_all(either, "early")
    for i, query in enumerate(("early", "q1", "q2", "q3")):
        shown = show(either, i, query)
        click(either, query, shown[1], "bot" if query != "q3" else "somebody else")
    settle_all(either, "early", "q1", "q2", "q3")
    learned = 0
    while found := learner.step():
        learned += found
    skipped = [name for each in either.read() if isinstance(each.entry, Batch) for name in each.entry.skipped]
    assert own_id("q2", "m", either.secret) in skipped  # the third list of the same client
    assert own_id("q3", "m", either.secret) not in skipped
    closed(either)
    learner.step()
    assert rebuild(either, "m").differs is None
    assert list(faults(either)) == []


def test_what_a_client_did_is_erased_with_it(log: Log) -> None:
    created(log)
    learner = Learner(log)
    for i, query in enumerate(("q0", "q1")):
        shown = show(log, i, query)
        click(log, query, shown[1], "alice" if i else "bob")
    settle_all(log, "q0", "q1")
    learner.step()
    before = bits(learner)
    retention.request_erasure(log, "alice")
    while learner.step() or not learner.is_tidy:
        pass
    entries = [record.entry for record in log.read() if isinstance(record.entry, Feedback)]
    assert [entry.source for entry in entries] == ["bob"]
    assert n_impressions(log) == 2  # the list itself names nobody
    assert bits(learner) == before
    assert rebuild(log, "m").differs is None
    assert list(faults(log)) == []
