from __future__ import annotations

from service_small import created, shown, spec

from perturank.service.entries import Closed
from perturank.service.log import Log
from perturank.service.service import Service
from perturank.service.settings import ServeSettings
from perturank.service.windows import GRAIN, Windows


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_window_is_over_its_length_after_the_impression_and_is_said_once() -> None:
    clock = Clock()
    windows = Windows(clock)
    windows.note("m", 5)
    clock.now += 9
    windows.note("m", 8)
    assert windows.due("m", 10) is None
    clock.now += 1 + GRAIN
    assert windows.due("m", 10) == 5
    assert windows.due("m", 10) is None
    assert windows.due("n", 10) is None
    clock.now += 100
    assert windows.due("m", 10) == 8
    assert windows.due("m", 10) is None


def test_impressions_close_together_are_remembered_as_one() -> None:
    clock = Clock()
    windows = Windows(clock)
    for position in range(1000):
        windows.note("m", position)
        clock.now += 0.01
    assert len(windows._made["m"]) <= 11
    clock.now += 10
    assert windows.due("m", 10 + GRAIN) is not None
    clock.now += 100
    assert windows.due("m", 10) == 999


def test_the_service_closes_windows_in_the_log(log: Log) -> None:
    position = created(log, window=10.0)
    shown(log)
    service, clock = Service(log, ServeSettings()), Clock()
    service.windows = Windows(clock)
    service.windows.note("m", 2)
    service.close_windows()
    clock.now += 12
    for _ in range(3):
        service.close_windows()
        service.refresh()
        clock.now += 100
    assert [record.entry for record in log.rare(after=position)] == [Closed(2)]  # nothing is closed twice
    assert service.host.get("m").spec == spec(window=10.0)
    service.close()
