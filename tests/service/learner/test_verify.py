from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from helpers.service_small import clicked, created, impression, learned, lived, shown, spec

from perturank.service.learner import retention, verify
from perturank.service.learner.learner import Learner
from perturank.service.learner.verify import faults
from perturank.service.log import Log, snapshots
from perturank.service.log.records import Batch, Event, Feedback, Record, Settled, new_id, own_id
from perturank.service.settings import Retention


def append(log: Log, entry: Any, name: bytes | None = None) -> None:
    with log.transaction() as transaction:
        transaction.append("m", entry, name)


def test_a_log_that_was_lived_is_whole(log: Log) -> None:
    created(log)
    lived(log, spec(), 3)
    shown(log)
    Learner(log).step()
    assert list(faults(log)) == []


def test_a_list_that_the_caller_has_named_may_settle_before_it_is_shown(log: Log) -> None:
    name = own_id("q-1", "m", log.secret)
    created(log)
    append(log, Feedback(["b"], False, "early", []), name)
    append(log, Settled([name]))
    shown(log, name=name)
    assert list(faults(log)) == []


@pytest.mark.parametrize(
    "entry, says",
    [
        (Feedback(["b"], False, "late"), "a click on 'b' counted twice"),
        (Feedback(["z"], False, "counted"), "an event of what was not shown"),
        (Feedback([], False, "counted", [Event("z", "purchase")]), "an event of what was not shown"),
        (Settled([new_id(9)]), "settles before it was shown"),
        (Batch(99, 0, []), "lies ahead of it"),
        (impression(), "without a name of its own"),
    ],
)
def test_what_cannot_be_is_found(log: Log, entry: Any, says: str) -> None:
    name = shown(log)
    clicked(log, name, 1)
    append(log, entry, name)
    assert any(says in fault and "position 3" in fault for fault in faults(log))


def test_what_was_last_in_an_earlier_version_is_followed_by_nothing_that_counts(log: Log) -> None:
    name = shown(log)
    append(log, Feedback(["b"], True, "counted"), name)
    append(log, Feedback(["c"], False, "late", []), name)
    assert list(faults(log)) == []
    append(log, Feedback(["d"], False, "counted", []), name)
    assert list(faults(log)) == ["position 4: feedback after the last word"]


def test_a_hole_and_a_damaged_version_are_found(log: Log) -> None:
    created(log)
    lived(log, spec(), 2)
    Learner(log).step()
    name = snapshots.version_name("m", 1)
    content = log.stored(name)
    assert content is not None
    with log.transaction() as transaction:
        transaction.store(name, content[:-1] + bytes([content[-1] ^ 1]))
    with log.transaction() as transaction:
        transaction.cut([3], [])
    found = list(faults(log))
    assert "position 3 is missing" in found
    assert any("the stored version 1 is damaged" in fault for fault in found)


def test_what_is_said_of_an_impression_in_other_pages_is_looked_up(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "AT_ONCE", 2)
    created(log)
    names = lived(log, spec(), 3)
    assert list(faults(log)) == []
    append(log, Feedback(["z"], False, "counted"), names[0])
    assert list(faults(log)) == ["position 8: an event of what was not shown"]


def test_it_takes_no_more_memory_for_a_longer_log(log: Log) -> None:
    peaks = []
    for n in (1500, 4500):
        with log.transaction() as transaction:
            for i in range(n):
                transaction.append("m", impression(i, ids=[f"{n} {i} {j} {'x' * 100}" for j in range(4)]), new_id(i))
        tracemalloc.start()
        assert list(faults(log)) == []
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_records_that_a_compaction_takes_out_meanwhile_are_no_fault(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "AT_ONCE", 5)
    monkeypatch.setattr("perturank.service.log.sql.PAGE", 5)
    created(log)
    learned(log, spec(), 4)
    about, looks = log.about, 0

    def meanwhile(impressions: Sequence[bytes]) -> list[Record]:
        nonlocal looks
        looks += 1
        if looks == 2:
            retention.compact(log, "m", Retention(impressions=3))
            for _ in retention.delete(log, "m", lambda transaction: None):
                pass
        return about(impressions)

    monkeypatch.setattr(log, "about", meanwhile)
    assert list(faults(log)) == []
    assert looks > 3


def test_damaged_features_are_found(log: Log) -> None:
    append(log, msgspec.structs.replace(impression(), packed=b"\x95\x00"), b"x" * 12)
    append(log, msgspec.structs.replace(impression(), ids=["a"]), b"y" * 12)
    first, second = faults(log)
    assert "cannot be read" in first
    assert "1 ids for 4 documents" in second
