from __future__ import annotations

import time
from typing import Any

import pytest

from perturank.service.serving.models import BegunAnew, Drift
from perturank.service.serving.overview import alarms

WELL: dict[str, Any] = {
    "is_led": True,
    "room": 10**10,
    "seconds_since_full": None,
    "n_failed": 0,
    "failing": (),
    "lags": {"m": 1.0},
    "faults": {},
    "begun_anew": {"m": BegunAnew(0, 1, 2, 3)},  # long ago
    "drifts": {"m": Drift(0, 40, 0.8, 0.6, "alarm")},
}


def test_a_service_that_is_well_has_no_alarm() -> None:
    assert list(alarms(**WELL)) == []
    assert list(alarms(**WELL | {"room": None, "seconds_since_full": 3600.0})) == []


@pytest.mark.parametrize(
    "change, name, model",
    [
        ({"is_led": False}, "no learner", None),
        ({"is_led": None}, "log away", None),
        ({"room": 1000}, "little room", None),
        ({"seconds_since_full": 1.0}, "log full", None),
        ({"n_failed": 2}, "failures", None),
        ({"failing": ("the log cannot be read: no disk",)}, "failing", None),
        ({"lags": {"m": 31.0, "n": 2.0}}, "lag", "m"),
        ({"faults": {"n": "version 3 of 'n' is damaged"}}, "damaged version", "n"),
        ({"begun_anew": {"n": BegunAnew(time.time_ns() // 10**6, 1, 2, 3)}}, "begun anew", "n"),
        ({"drifts": {"n": Drift(time.time_ns() // 10**6, 40, 0.8, 0.6, "forget")}}, "drift", "n"),
    ],
)
def test_each_thing_that_is_wrong_has_its_alarm(change: dict[str, object], name: str, model: str | None) -> None:
    (found,) = alarms(**WELL | change)
    assert (found.name, found.model) == (name, model)
    assert found.says.endswith(".")
    assert found.remedy.endswith(".")
