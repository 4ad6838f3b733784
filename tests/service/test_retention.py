from __future__ import annotations

import pytest

from perturank.errors import BadInput
from perturank.service.retention import Retention


@pytest.mark.parametrize("text, seconds", [("30d", 30 * 86400), ("12h", 12 * 3600), ("1.5m", 90), ("10s", 10)])
def test_a_span_is_written_with_its_unit(text: str, seconds: float) -> None:
    retention = Retention.of(text, None)
    assert retention is not None
    assert retention.seconds == seconds
    assert retention.lets_go(round(1000 * seconds), 0)
    assert not retention.lets_go(round(1000 * seconds) - 1, 10**9)


def test_impressions_are_counted() -> None:
    retention = Retention.of(None, 100)
    assert retention is not None
    assert retention.lets_go(0, 100)
    assert not retention.lets_go(10**12, 99)


def test_nothing_said_keeps_all_and_nonsense_is_refused() -> None:
    assert Retention.of(None, None) is None
    for words in (("30", None), ("-3d", None), ("d", None), ("30d", 5)):
        with pytest.raises(BadInput):
            Retention.of(*words)
