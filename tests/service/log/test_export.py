from __future__ import annotations

import json

import pytest
from helpers.service_small import clicked, created, impression, shown, spec

from perturank.service.learner.learner import Learner
from perturank.service.log import Log
from perturank.service.log.records import (
    KINDS,
    Batch,
    Changed,
    Closed,
    Compacted,
    Deleted,
    Drifted,
    Entry,
    Erased,
    Event,
    Feedback,
    Imported,
    LiveTestChanged,
    LiveTestStopped,
    Pinned,
    Record,
    RolledBack,
    Scaled,
    Settled,
    Snapshot,
    as_json,
    sign_id,
)
from perturank.wire.live_tests import LiveTest

OF_EACH_KIND: list[Entry] = [
    Changed(0, spec()),
    Deleted(),
    impression(),
    Feedback(["a"], True, "counted"),
    Closed(3),
    Batch(4, 1, []),
    Snapshot(1, 1, 1, b"digest", b"sum", 1),
    Pinned(1),
    RolledBack(1),
    Imported("m/imported/1"),
    Compacted(7, 5, 1, 1, b"digest"),
    Erased(b"seal"),
    Scaled(1, [0.0], [1.0], False),
    Settled([b"123456789012"]),
    LiveTestChanged(LiveTest(("m", "own"))),
    LiveTestStopped("m"),
    Drifted(30, 0.8, 0.5, "alarm"),
]


def test_every_record_is_one_json_object_in_order(log: Log) -> None:
    position = created(log, ranker="p2linrank")
    name = shown(log, impression(generation=position))
    clicked(log, name, 2)
    Learner(log).step()
    objects = [as_json(record, log.secret) for record in log.read()]
    assert json.loads(json.dumps(objects, allow_nan=False)) == objects
    assert [each["position"] for each in objects] == [1, 2, 3, 4, 5]
    assert [each["kind"] for each in objects] == ["changed", "impression", "feedback", "batch", "snapshot"]
    assert {each["model"] for each in objects} == {"m"}
    assert objects[1]["impression"] == objects[2]["impression"] == sign_id(name, "m", log.secret)
    assert objects[1]["ranking"] == ["a", "b", "c", "d"]
    assert objects[1]["propensity"] == pytest.approx(1 / 2.718281828, rel=1e-6)
    assert (objects[2]["clicks"], objects[2]["final"], objects[2]["effect"]) == (["c"], True, "counted")
    assert (objects[3]["through"], objects[3]["n"], objects[3]["skipped"]) == (3, 1, [])
    assert objects[4]["version"] == 1
    assert objects[0]["spec"]["ranker"] == spec("p2linrank").ranker


def test_features_come_when_asked_for(log: Log) -> None:
    shown(log)
    with log.transaction() as transaction:
        transaction.append("m", Closed(1))
        transaction.append("m", Batch(1, 0, [b"123456789012"]))
    record, closed, batch = log.read()
    assert "features" not in as_json(record, log.secret)
    assert len(as_json(record, log.secret, with_features=True)["features"]) == 4
    assert as_json(closed, log.secret)["through"] == 1
    assert as_json(batch, log.secret)["skipped"] == [sign_id(b"123456789012", "m", log.secret)]


def test_events_are_named_and_what_settled_has_its_signed_id() -> None:
    said = Feedback(["a"], False, "counted", [Event("b", "purchase", 39.9)], 7)
    assert (
        as_json(Record(1, 0, "m", b"123456789012", said), b"secret").items()
        >= {
            "clicks": ["a"],
            "final": False,
            "effect": "counted",
            "events": [{"id": "b", "action": "purchase", "value": 39.9}],
            "seen": 7,
        }.items()
    )
    settled = as_json(Record(2, 0, "m", None, Settled([b"123456789012"])), b"secret")
    assert settled["impressions"] == [sign_id(b"123456789012", "m", b"secret")]


def test_position_kind_model_and_time_are_the_records_whatever_its_entry_holds() -> None:
    assert [type(entry) for entry in OF_EACH_KIND] == list(KINDS)
    for entry in OF_EACH_KIND:
        line = as_json(Record(99, 1_700_000_000_123, "m", b"123456789012", entry), b"secret")
        assert (line["position"], line["kind"], line["model"]) == (99, type(entry).__name__.lower(), "m")
        assert line["at"] == "2023-11-14T22:13:20.123+00:00"
        assert line["impression"] == sign_id(b"123456789012", "m", b"secret")


def test_where_a_base_ends_has_a_name_of_its_own() -> None:
    line = as_json(Record(99, 0, "m", None, Compacted(7, 5, 2, 3, b"d")), b"secret")
    said = {name: line[name] for name in ("base_at", "through", "version", "learned", "digest")}
    assert said == {"base_at": 7, "through": 5, "version": 2, "learned": 3, "digest": b"d".hex()}
