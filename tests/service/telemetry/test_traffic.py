from __future__ import annotations

import pytest

from perturank.service.telemetry.prometheus import SECONDS_KEPT, Traffic

RANK, FEEDBACK = "/v1/models/{model}/rank", "/v1/models/{model}/feedback"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.5

    def __call__(self) -> float:
        return self.now


def test_requests_are_counted_in_their_second() -> None:
    clock = Clock()
    traffic = Traffic(clock)
    for n in (3, 0, 2):
        for _ in range(n):
            traffic.note(RANK, 200, 0.01)
        clock.now += 1
    traffic.note(RANK, 200, 0.01)  # of the second that is not over
    assert traffic.now()["rank"]["per_second"][-3:] == [3, 0, 2]
    assert sum(traffic.now()["feedback"]["per_second"]) == 0


def test_what_is_two_minutes_old_is_forgotten() -> None:
    clock = Clock()
    traffic = Traffic(clock)
    traffic.note(FEEDBACK, 200, 0.01)
    clock.now += SECONDS_KEPT
    assert sum(traffic.now()["feedback"]["per_second"]) == 0
    assert traffic.now()["feedback"]["p50"] is None


@pytest.mark.parametrize("seconds", [0.0002, 0.003, 0.05, 1.7])
def test_quantiles_are_at_most_a_fifth_too_long(seconds: float) -> None:
    traffic = Traffic(Clock())
    for _ in range(99):
        traffic.note(RANK, 200, seconds)
    traffic.note(RANK, 200, 100 * seconds)
    assert seconds <= traffic.now()["rank"]["p50"] <= 1.2 * seconds
    assert seconds <= traffic.now()["rank"]["p99"] <= 1.2 * seconds


def test_a_service_that_says_it_is_not_ready_has_not_failed() -> None:
    traffic = Traffic(Clock())
    traffic.note("/readyz", 503, 0.01)
    assert traffic.n_failed() == 0
    traffic.note(RANK, 500, 0.01)
    assert traffic.n_failed() == 1


def test_a_full_log_is_remembered() -> None:
    clock = Clock()
    traffic = Traffic(clock)
    assert traffic.seconds_since_full() is None
    traffic.note(RANK, 507, 0.01)
    clock.now += 5
    assert traffic.seconds_since_full() == 5
