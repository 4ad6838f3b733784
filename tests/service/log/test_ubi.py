from __future__ import annotations

from typing import Any

import msgspec
import pytest
from helpers.service_small import created, impression, shown

from perturank.service.log import Log
from perturank.service.log.counters import TOTAL, summary
from perturank.service.log.feedback import close_windows
from perturank.service.log.records import Event, Feedback, new_id, own_id, sign_id
from perturank.service.log.refusals import Refused
from perturank.service.log.ubi import MOST_LISTS, lists_of, next_name, note_query, record_event
from perturank.wire.specification import Ubi
from perturank.wire.ubi import EventRecord, QueryRecord

FURTHER = ["e", "f", "g", "a"]  # what the second list of a query shows


def event(action: str = "click", document: str | None = "b", query: str | None = "q", **more: Any) -> EventRecord:
    about = {"object": {"object_id": document}, "position": {"ordinal": more.pop("ordinal", None)}}
    values = {"action_name": action, "query_id": query, "client_id": "browser", "event_attributes": about}
    return msgspec.convert(values | more, EventRecord)


def give(log: Log, *given: Any, **more: Any) -> str:
    """Return what an event does, or why it is refused."""
    with log.transaction() as transaction:
        try:
            return record_event(transaction, "m", event(*given, **more), log.secret).status
        except Refused as refused:
            return refused.what


def listed(log: Log, query: str = "q", **changes: Any) -> bytes:
    """Show a list of a query."""
    with log.transaction() as transaction:
        name = next_name(transaction, query, "m", log.secret)
    return shown(log, impression(**changes), name=name)


def said(log: Log) -> list[tuple[bytes | None, Feedback]]:
    records = [record for record in log.read() if isinstance(record.entry, Feedback)]
    return [(record.impression, record.entry) for record in records if isinstance(record.entry, Feedback)]


def counted(log: Log) -> Any:
    (total,) = log.counters((TOTAL,))
    return summary(total.amounts)


def test_an_event_of_a_query_counts_once(log: Log) -> None:
    created(log)
    name = listed(log)
    assert [give(log), give(log), give(log, "add_to_cart")] == ["recorded", "known", "recorded"]
    assert [(of, entry.clicks, entry.events) for of, entry in said(log)] == [
        (name, ["b"], []),
        (name, [], [Event("b", "add_to_cart")]),
    ]
    assert counted(log)["events"] == {"click": 1, "add_to_cart": 1}
    assert counted(log)["ubi"] == {"recorded": 2, "known": 1}


def test_an_impression_is_a_query_id_too(log: Log) -> None:
    created(log)
    name = shown(log)
    assert give(log, query=sign_id(name, "m", log.secret)) == "recorded"
    own = listed(log)
    assert give(log, query=sign_id(own, "m", log.secret)) == "recorded"
    assert give(log, query="q") == "known"
    with log.transaction() as transaction, pytest.raises(Refused, match="impression of another list"):
        next_name(transaction, sign_id(name, "m", log.secret), "m", log.secret)


def test_events_wait_for_their_list(log: Log) -> None:
    created(log)
    assert [give(log), give(log), give(log, "impression", ordinal=3)] == ["early", "known", "early"]
    name = listed(log)
    assert [give(log), give(log, document="c")] == ["known", "recorded"]
    assert {of for of, _ in said(log)} == {name}
    assert [(entry.effect, entry.seen) for _, entry in said(log)] == [("early", 0), ("early", 3), ("counted", 0)]


def test_an_event_belongs_to_the_newest_list_of_its_query_that_shows_the_document(log: Log) -> None:
    created(log)
    first = listed(log)
    assert give(log, document="a") == "recorded"
    second = listed(log, ids=FURTHER)
    assert first != second
    assert give(log, document="a") == "known"  # again, though it is on the second page too
    assert give(log, "purchase", document="a") == "recorded"
    assert [give(log, document="b"), give(log, document="e")] == ["recorded", "recorded"]
    assert [of for of, _ in said(log)] == [first, second, first, second]
    assert give(log, document="z") == "document 'z' was not shown"
    assert counted(log)["ubi"] == {"recorded": 4, "known": 1, "refused": 1}


def test_a_query_id_that_never_changes_is_refused_in_the_end(log: Log) -> None:
    created(log)
    with log.transaction() as transaction:
        for n in range(MOST_LISTS):
            transaction.append("m", impression(), own_id("q", "m", log.secret, n))
    with log.transaction() as transaction, pytest.raises(Refused, match="has 100 lists"):
        next_name(transaction, "q", "m", log.secret)
    assert give(log) == "recorded"


def test_other_names_of_actions_mean_what_the_model_says(log: Log) -> None:
    ubi = Ubi(actions={"item_click": "click", "order": "purchase"})
    created(log, ubi=ubi)
    listed(log)
    assert [give(log, "click_through"), give(log, "item_click"), give(log, "order")] == [
        "recorded",
        "known",
        "recorded",
    ]
    assert give(log, "search", document=None, query=None) == "ignored"  # of no use, whatever else it lacks
    assert give(log, "purchase") == "known"
    assert counted(log)["events"] == {"click": 1, "purchase": 1}
    created(log, actions={"click_through": 2.0})
    assert give(log, "click_through", document="c") == "recorded"
    assert counted(log)["events"]["click_through"] == 1


@pytest.mark.parametrize("base, ordinal, place", [(1, 1, 1), (0, 0, 1), (0, 3, 4)])
def test_impressions_say_how_far_somebody_looked(log: Log, base: int, ordinal: int, place: int) -> None:
    created(log, ubi=Ubi(ordinal_base=base))  # type: ignore[arg-type]
    listed(log)
    assert give(log, "impression", None, ordinal=ordinal) == "recorded"
    assert said(log)[-1][1].seen == place


def test_where_the_document_is_known_its_place_is_too(log: Log) -> None:
    created(log)
    listed(log)
    assert give(log, "impression", "c", ordinal=17) == "recorded"  # as a grid may count
    assert said(log)[-1][1].seen == 3
    assert give(log, "impression", "b") == "known"
    assert give(log, "impression", None) == "ignored"
    for ordinal in (0, 101, "third"):
        assert "ordinal" in give(log, "impression", None, ordinal=ordinal)
    created(log, ubi=Ubi(seen=()))
    assert give(log, "impression", "d") == "ignored"


@pytest.mark.parametrize("given, says", [({"query": None}, "no query_id"), ({"document": None}, "no document")])
def test_an_event_that_could_count_says_what_it_lacks(log: Log, given: dict[str, Any], says: str) -> None:
    created(log)
    assert says in give(log, **given)
    assert counted(log)["ubi"] == {"refused": 1}


def test_the_client_is_the_source_where_the_list_has_none(log: Log) -> None:
    created(log)
    listed(log)
    give(log)
    give(log, "purchase", client_id="another")
    listed(log, "of alice", source="alice")
    give(log, query="of alice")
    assert [entry.source for _, entry in said(log)] == ["browser", None, None]


def test_after_its_window_an_event_is_late(log: Log) -> None:
    created(log)
    listed(log)
    with log.transaction() as transaction:
        close_windows(transaction, "m", log.tail())
    assert give(log) == "late"


def test_a_query_is_counted_and_says_whether_there_is_a_list_of_it(log: Log) -> None:
    created(log)
    listed(log)
    hits = QueryRecord(query_id="other", user_query="red shoes", query_response_hit_ids=["a", "b"])
    with log.transaction() as transaction:
        assert note_query(transaction, "m", QueryRecord(query_id="q"), log.secret).status == "listed"
        unlisted = note_query(transaction, "m", hits, log.secret)
        with pytest.raises(Refused, match="no query_id"):
            note_query(transaction, "m", QueryRecord(), log.secret)
    assert unlisted.status == "unlisted"
    assert "features" in unlisted.title
    assert counted(log)["ubi"] == {"listed": 1, "unlisted": 1, "refused": 1}
    assert not any(b"red shoes" in msgspec.msgpack.encode(record.entry) for record in log.read())


def test_a_list_without_a_name_of_the_callers_belongs_to_no_query(log: Log) -> None:
    created(log)
    shown(log, name=new_id(1))
    with log.transaction() as transaction:
        (only,) = lists_of(transaction, "q", "m", log.secret)
    assert not only.shown
