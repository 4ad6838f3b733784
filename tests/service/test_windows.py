from __future__ import annotations

from service_small import created, shown, spec

from perturank.service.entries import Closed
from perturank.service.log import Log
from perturank.service.service import Service
from perturank.service.settings import ServeSettings
from perturank.service.windows import Windows


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_window_is_over_its_length_after_the_log_ended_there() -> None:
    clock = Clock()
    windows = Windows(clock)
    windows.note(5)
    clock.now += 9
    windows.note(8)
    assert windows.due("m", 10) is None
    clock.now += 1
    assert windows.due("m", 10) == 5
    assert windows.due("m", 10) is None  # it was said
    assert windows.due("n", 10) == 5
    clock.now += 100
    assert windows.due("m", 10) == 8


def test_what_no_window_needs_is_forgotten() -> None:
    clock = Clock()
    windows = Windows(clock)
    for tail in range(1, 50):
        windows.note(tail)
        clock.now += 1
    windows.forget(10)
    assert len(windows._ends) <= 12
    assert windows.due("m", 10) == 40


def test_the_service_closes_windows_in_the_log(log: Log) -> None:
    position = created(log, window=10.0)
    shown(log)
    service = Service(log, ServeSettings())
    clock = Clock()
    service.windows = Windows(clock)
    service.refresh()
    service.close_windows()
    clock.now += 11
    service.close_windows()
    service.close_windows()
    assert [record.entry for record in log.rare(after=position)] == [Closed(2)]
    assert service.host.get("m").spec == spec(window=10.0)
    service.close()
