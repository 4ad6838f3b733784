from __future__ import annotations

from typing import Any

import msgspec
import pytest
from service_small import clicked, created, impression, lived, shown, spec

from perturank.service import snapshots
from perturank.service.entries import Batch, Feedback
from perturank.service.learner import Learner
from perturank.service.log import Log
from perturank.service.log.sqlite import SqliteLog
from perturank.service.verifying import faults


def append(log: Log, entry: Any, name: bytes | None = None) -> None:
    with log.transaction() as transaction:
        transaction.append("m", entry, name)


def test_a_log_that_was_lived_is_whole(log: Log) -> None:
    created(log)
    lived(log, spec(), 3)
    shown(log)
    Learner(log).step()
    assert list(faults(log)) == []


@pytest.mark.parametrize(
    "entry, says",
    [
        (Feedback(["c"], False, "counted"), "after the last word"),
        (Feedback(["b"], False, "late"), "a click on 'b' counted twice"),
        (Feedback(["z"], False, "counted"), "a click on what was not shown"),
        (Batch(99, 0, []), "lies ahead of it"),
        (impression(), "without a name of its own"),
    ],
)
def test_what_cannot_be_is_found(log: Log, entry: Any, says: str) -> None:
    name = shown(log)
    clicked(log, name, 1)
    append(log, entry, name)
    assert any(says in fault and "position 3" in fault for fault in faults(log))


def test_a_hole_and_a_damaged_version_are_found(log: Log) -> None:
    created(log)
    lived(log, spec(), 2)
    Learner(log).step()
    name = snapshots.version_name("m", 1)
    content = log.stored(name)
    assert content is not None
    with log.transaction() as transaction:
        transaction.store(name, content[:-1] + bytes([content[-1] ^ 1]))
    assert isinstance(log, SqliteLog)
    log._connection().execute("DELETE FROM log WHERE position = 3")
    found = list(faults(log))
    assert "position 3 is missing" in found
    assert any("the stored version 1 is damaged" in fault for fault in found)


def test_damaged_features_are_found(log: Log) -> None:
    append(log, msgspec.structs.replace(impression(), packed=b"\x95\x00"), b"x" * 12)
    append(log, msgspec.structs.replace(impression(), ids=["a"]), b"y" * 12)
    first, second = faults(log)
    assert "cannot be read" in first
    assert "1 ids for 4 documents" in second
