from __future__ import annotations

import numpy as np
import pytest

from perturank.service.recent import MOST, MOST_BYTES, Recent
from perturank.service.refusals import NotKnown


def note(recent: Recent, query: str, rows: int = 2) -> None:
    recent.note("m", query, [str(i) for i in range(rows)], np.zeros((rows, 100), np.float32), None)


def test_the_last_queries_are_kept_newest_first() -> None:
    recent = Recent()
    for number in range(MOST + 5):
        note(recent, f"query {number}")
    kept = recent.of("m")
    assert [each.query for each in kept] == [f"query {number}" for number in range(MOST + 4, 4, -1)]
    assert recent.get("m", kept[3].number) is kept[3]
    assert recent.of("other") == []


def test_large_queries_do_not_fill_the_memory() -> None:
    recent = Recent()
    for _ in range(10):
        note(recent, "large", rows=MOST_BYTES // 400 // 3)
    assert sum(each.features.nbytes for each in recent.of("m")) <= MOST_BYTES
    note(recent, "too large", rows=MOST_BYTES // 400 + 1)
    assert recent.of("m")[0].query == "large"


def test_one_that_is_gone_is_refused() -> None:
    recent = Recent()
    note(recent, "x")
    number = recent.of("m")[0].number
    recent.forget("m")
    with pytest.raises(NotKnown, match="not remembered"):
        recent.get("m", number)
