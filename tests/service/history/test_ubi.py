"""UBI logs as past lists: a made-up one for each trap, and the sample with all of them."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.past_lists import totals, written
from helpers.service_small import N_FEATURES, created

from perturank.service.history.ubi import NO_FEATURES, NO_LIST, NOT_SHOWN, UbiReport, import_records
from perturank.service.learner.learner import Learner
from perturank.service.learner.replay import rebuild
from perturank.service.learner.verify import faults
from perturank.service.log import Log
from perturank.service.log.records import Feedback, Impression

SAMPLE = Path(os.environ.get("PERTURANK_TEST_DATA", "")) / "ubi" / "ubi_queries_events.ndjson.gz"
TIME = "2025-01-01T00:00:0{}Z"


def features(query: str | None, ids: Sequence[str]) -> list[list[float] | None]:
    """Return made-up features of every document but x."""
    digests = [hashlib.md5(each.encode()).digest() for each in ids]
    return [
        None if each == "x" else [b / 255 for b in digest[:N_FEATURES]]
        for each, digest in zip(ids, digests, strict=True)
    ]


def event(
    query: str | None, action: str, document: str | None = None, ordinal: Any = None, at: int = 1, **more: Any
) -> dict[str, Any]:
    about = {"object": {"object_id": document}} if document else {}
    where = {} if ordinal is None else {"position": {"ordinal": ordinal}}
    record = {
        "application": "web",
        "action_name": action,
        "timestamp": TIME.format(at),
        "event_attributes": about | where,
    }
    return record | ({} if query is None else {"query_id": query}) | more


def asked(query: str, hits: Sequence[str] = (), at: int = 0, **more: Any) -> dict[str, Any]:
    record = {"application": "web", "query_id": query, "timestamp": TIME.format(at), "user_query": "shoes"}
    return record | {"query_response_hit_ids": list(hits), "client_id": f"client of {query}"} | more


def imported(log: Log, *paths: Path, **options: Any) -> UbiReport:
    options = {"application": None, "dry_run": False, "on_progress": lambda share: None} | options
    report = import_records(log, "m", paths, features, **options)
    assert report.read == report.imported + report.known + report.refused.total()
    return report


def lists(log: Log) -> list[tuple[Impression, Feedback]]:
    entries = [record.entry for record in log.read()]
    shown = [entry for entry in entries if isinstance(entry, Impression)]
    return list(zip(shown, [entry for entry in entries if isinstance(entry, Feedback)], strict=True))


def test_lists_are_hits_or_impressions_by_ordinal_in_the_order_of_their_times(log: Log, tmp_path: Path) -> None:
    created(log, ranker="p2linrank")
    records: list[Any] = [
        asked("late", ["a", "b", "c", "x"], at=5),
        event("late", "impression", "b", 1, at=6),
        event("late", "click", "c", 2, at=7),
        event("late", "click", "x", 3, at=7),
        event("late", "click", "nowhere", 0, at=7),
        # ordinals from 0, epoch milliseconds, and a document that another one replaced
        event("early", "impression", "old", 0, timestamp=1717527762080),
        event("early", "impression", "two", 1, timestamp=1717527762082),
        event("early", "impression", "one", 0, timestamp=1717527762081),
        event("early", "add_to_cart", "two", 1, timestamp="1717527762999", client_id="kim"),
        # several query records: that with the documents of the events counts
        asked("many", at=1),
        asked("many", ["a", "b"], at=2),
        asked("many", ["z"], at=2),
        event("many", "click_through", "b", at=3),
        event("many", "click", "b", at=4),
        asked("nothing"),
        event("nothing", "click", "a"),
        event("alone", "click", "a"),
        event(None, "click", "a"),
        event("late", "page_exit"),
        event("late", "click"),
        event("late", "click", "a", timestamp="noon"),
        {"query_id": ["q"]},
        "{",
        "7",
    ]
    path = written(tmp_path, records, "ubi.ndjson")
    report = imported(log, path)
    assert [(shown.ids, said.event_keys, said.seen, shown.source) for shown, said in lists(log)] == [
        (["one", "two"], [("two", "add_to_cart")], 2, "kim"),
        (["a", "b"], [("b", "click")], 0, "client of many"),
        (["a", "b", "c"], [("c", "click")], 2, "client of late"),
    ]
    assert (report.read, report.imported) == (24, 11)
    assert (report.lists.read, report.lists.imported, report.lists.n_refused) == (5, 3, 2)
    counts = dict(report.refused)
    assert [counts.pop(reason) for reason in (NO_LIST, NOT_SHOWN, NO_FEATURES)] == [3, 2, 1]
    assert counts.pop("the model has no action page_exit") == 1
    assert counts.pop("it has no query_id") == 1
    assert counts.pop("it names no document") == 1
    assert sum(counts.values()) == 4
    assert all(reason.startswith("it cannot be read") for reason in counts)
    assert imported(log, path).known == 11
    assert totals(log)["lists"]["imported"] == 3


def test_bulk_files_dumps_and_arrays_hold_the_same_records(log: Log, tmp_path: Path) -> None:
    created(log, ranker="p2linrank")
    records = [asked("q", ["a", "b"]), event("q", "click", "b"), event("q", "click", "a", application="other")]
    bulk = [line for each in records for line in ({"index": {"_index": "ubi"}}, each)]
    array = tmp_path / "array.json"
    array.write_text(json.dumps(records, indent=1))
    packed = tmp_path / "bulk.ndjson.gz"
    packed.write_bytes(gzip.compress(written(tmp_path, bulk, "bulk.ndjson").read_bytes()))
    dump = written(tmp_path, [{"_index": "ubi", "_source": each} for each in records], "dump.json")
    for path in (written(tmp_path, records, "lines.ndjson"), packed, dump, array):
        report = imported(log, path, application="web", dry_run=True)
        assert (report.read, report.imported) == (3, 2)
        assert report.refused == {"it is of another application": 1}
    assert lists(log) == []


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the sample is not there")
def test_every_record_of_the_sample_is_counted_and_importing_it_twice_changes_nothing(either: Log) -> None:
    created(either, ranker="p2linrank")
    report = imported(either, SAMPLE)
    assert (report.read, report.lists.imported) == (3921, 284)
    clicked = [said for _, said in lists(either) if said.clicks]
    assert len(clicked) >= 91
    times = [shown.shown_at or 0 for shown, _ in lists(either)]
    assert times == sorted(times)
    assert times[0] > 0
    tail = either.tail()
    again = imported(either, SAMPLE)
    assert (again.imported, again.known, again.refused) == (0, report.imported, report.refused)
    assert either.tail() == tail
    learner = Learner(either)
    learner.step()
    assert learner.states["m"].learned == len(lists(either))
    assert rebuild(either, "m").differs is None
    assert list(faults(either)) == []
