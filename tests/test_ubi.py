from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perturank.wire.ubi import decode_event, decode_query, milliseconds, separate

SAMPLE = Path(os.environ.get("PERTURANK_TEST_DATA", "")) / "ubi" / "ubi_queries_events.ndjson.gz"

CLICK = {
    "application": "shop",
    "action_name": "click",
    "query_id": "q-1",
    "session_id": "s",
    "client_id": "c",
    "user_id": "",
    "timestamp": "2026-01-22T14:57:25.099Z",
    "message_type": "INFO",
    "message": "",
    "event_attributes": {
        "object": {"object_id": "B07", "object_id_field": "asin", "description": None, "price": 3.5},
        "position": {"ordinal": 4, "x": 1},
    },
}


def event(**changes: Any) -> Any:
    return decode_event(json.dumps(CLICK | changes))


def about(**changes: Any) -> Any:
    return event(event_attributes={"object": {"object_id": "B07"}} | changes)


def test_an_event_of_ubi_js_is_read() -> None:
    click = event()
    assert (click.application, click.query, click.client, click.action_name) == ("shop", "q-1", "c", "click")
    assert (click.document, click.ordinal, click.at) == ("B07", 4, 1769093845099)
    assert (click.place(0), click.place(1)) == (5, 4)


def test_what_is_null_absent_or_empty_is_not_there() -> None:
    search = decode_event(b'{"action_name": "search", "query_id": null, "client_id": "", "event_attributes": null}')
    assert (search.query, search.client, search.document, search.ordinal, search.at) == (None,) * 5
    assert about(object=None, position=None).document is None
    assert about(object={"object_id": ""}).document is None
    assert about(position={"x": 1, "y": 2}).place(0) is None
    assert decode_query(b"{}").hits == []


def test_ids_may_be_numbers() -> None:
    assert about(object={"object_id": 4033874254060}).document == "4033874254060"
    assert event(query_id=7, client_id=8).query == "7"
    assert decode_query(b'{"query_response_hit_ids": ["a", 5]}').hits == ["a", "5"]


@pytest.mark.parametrize("ordinal", [3, 3.0, "3", {"index": 3}])
def test_ordinals_have_several_forms(ordinal: Any) -> None:
    assert about(position={"ordinal": ordinal}).ordinal == 3


@pytest.mark.parametrize(
    "time",
    [
        "2025-01-24T07:31:52.102Z",
        "2025-01-24T07:31:52.102+0000",
        "2025-01-24T08:31:52.102+01:00",
        "2025-01-24T07:31:52.102",
        1737703912102,
        1737703912102.0,
        "1737703912102",
    ],
)
def test_times_have_several_forms(time: Any) -> None:
    assert milliseconds(time) == 1737703912102


@pytest.mark.parametrize("time", ["yesterday", "", "2025-13-01"])
def test_what_is_no_time_is_said(time: Any) -> None:
    with pytest.raises(ValueError):
        milliseconds(time)


@pytest.mark.parametrize(
    "record, says",
    [
        ({"action_name": None}, "action_name"),
        ({"action_name": ""}, "action_name"),
        ({"query_id": "x" * 201}, "query_id"),
        ({"event_attributes": {"object": "B07"}}, "event_attributes.object"),
    ],
)
def test_what_cannot_be_read_is_named(record: Any, says: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=says):
        event(**record)


def test_records_are_separated_before_they_are_read() -> None:
    good = json.dumps(CLICK).encode()
    parts = separate(b'[{"action_name": 5},' + good + b"]")
    assert len(parts) == 2
    assert decode_event(parts[1]).document == "B07"
    assert [bytes(each) for each in separate(b" " + good)] == [good]
    assert separate(b"[]") == []
    with pytest.raises(msgspec.DecodeError):
        separate(b"[{]")


@pytest.mark.skipif(not SAMPLE.is_file(), reason="PERTURANK_TEST_DATA has no UBI sample")
def test_every_record_of_a_real_log_is_read() -> None:
    lines = gzip.decompress(SAMPLE.read_bytes()).splitlines()
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    queries = [decode_query(line) for head, line in pairs if b"ubi_queries" in head]
    events = [decode_event(line) for head, line in pairs if b"ubi_events" in head]
    assert (len(queries), len(events)) == (473, 3448)
    assert sum(bool(each.hits) for each in queries) == 81
    assert all(each.at is not None and each.at > 1.7e12 for each in (*queries, *events))
    assert len({each.query for each in events} - {each.query for each in queries} - {None}) == 480
    assert sum(each.query is None for each in events) == 2
    clicks = [each for each in events if each.action_name == "click"]
    assert Counter(each.application for each in clicks) == {"Chorus": 227, "esci_ubi_sample": 60}
    assert min(each.place(1) or 9 for each in clicks if each.application == "Chorus") == 1
    assert min(each.place(0) or 9 for each in clicks if each.application == "esci_ubi_sample") == 1
    assert all(each.document for each in clicks)
