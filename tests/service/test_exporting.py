from __future__ import annotations

import json

import pytest
from service_small import clicked, created, impression, shown, spec

from perturank.service.entries import Batch, Closed
from perturank.service.exporting import exported
from perturank.service.learner import Learner
from perturank.service.log import Log
from perturank.service.sealing import sealed


def test_every_record_is_one_json_object_in_order(log: Log) -> None:
    position = created(log, ranker="p2linrank")
    name = shown(log, impression(generation=position))
    clicked(log, name, 2)
    Learner(log).step()
    objects = [exported(record, log.secret) for record in log.read()]
    assert json.loads(json.dumps(objects, allow_nan=False)) == objects
    assert [each["position"] for each in objects] == [1, 2, 3, 4, 5]
    assert [each["kind"] for each in objects] == ["changed", "impression", "feedback", "batch", "snapshot"]
    assert {each["model"] for each in objects} == {"m"}
    assert objects[1]["impression"] == objects[2]["impression"] == sealed(name, "m", log.secret)
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
    assert "features" not in exported(record, log.secret)
    assert len(exported(record, log.secret, with_features=True)["features"]) == 4
    assert exported(closed, log.secret)["through"] == 1
    assert exported(batch, log.secret)["skipped"] == [sealed(b"123456789012", "m", log.secret)]
