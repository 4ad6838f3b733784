from __future__ import annotations

import numpy as np
import pytest
from helpers.service_small import request

from perturank.service.log import Log
from perturank.service.log.refusals import NotKnown
from perturank.service.serving.models import MOST_QUERIES, MOST_QUERY_BYTES, RecentQueries
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings


def note(recent: RecentQueries, query: str, rows: int = 2, model: str = "m") -> None:
    recent.note(model, query, [str(i) for i in range(rows)], np.zeros((rows, 100), np.float32), None)


def test_a_sample_of_the_last_hour_is_kept_newest_first() -> None:
    now = [0.0]
    recent = RecentQueries(lambda: now[0])
    for number in range(2000):
        note(recent, str(number))
        now[0] += 1.0
    kept = recent.of("m")
    numbers = [int(each.query or "") for each in kept]
    assert len(numbers) == MOST_QUERIES
    assert numbers == sorted(numbers, reverse=True)
    assert min(numbers) < 1000 < max(numbers)  # the last 25 alone would be gone within seconds
    newest = recent.newest("m")
    assert newest is not None
    assert newest.query == "1999"
    now[0] += 3600.0
    note(recent, "an hour later")
    assert [each.query for each in recent.of("m")] == ["an hour later"]
    now[0] = 0.0
    recent.forget("m")
    for number in range(5):
        note(recent, str(number))
    kept = recent.of("m")
    assert recent.get("m", kept[3].number) is kept[3]
    assert recent.of("other") == []


def test_large_queries_do_not_fill_the_memory() -> None:
    recent = RecentQueries()
    for _ in range(10):
        note(recent, "large", rows=MOST_QUERY_BYTES // 400 // 3)
    assert sum(each.features.nbytes for each in recent.of("m")) <= MOST_QUERY_BYTES
    note(recent, "too large", rows=MOST_QUERY_BYTES // 400 + 1)
    assert recent.of("m")[0].query == "large"


@pytest.mark.parametrize("forgetting", ["erase", "delete"])
def test_all_processes_forget_the_queries_of_a_model_that_was_deleted_or_lost_a_source(
    log: Log, forgetting: str
) -> None:
    """One process is asked, the other reads of it in the log."""
    asked, other = (Service(log, ServeSettings(max_documents=16)) for _ in range(2))
    try:
        all_recent = [asked.models.recent, other.models.recent]
        for name in ("m", "n"):
            asked.put(name, request("random"))
        other.refresh()
        for recent in all_recent:
            note(recent, "theirs")
            note(recent, "not theirs", model="n")
        asked.erase("m", "alice") if forgetting == "erase" else asked.delete("m")
        assert [len(recent.of("m")) for recent in all_recent] == [0, 1]
        other.refresh()
        assert [len(recent.of("m")) for recent in all_recent] == [0, 0]
        assert [len(recent.of("n")) for recent in all_recent] == [1, 1]
    finally:
        asked.close()
        other.close()


def test_one_that_is_gone_is_refused() -> None:
    recent = RecentQueries()
    note(recent, "x")
    number = recent.of("m")[0].number
    recent.forget("m")
    with pytest.raises(NotKnown, match="not remembered"):
        recent.get("m", number)
