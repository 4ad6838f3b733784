from __future__ import annotations

from service_small import impression

from perturank.service.entries import Closed, Entry, Feedback, Record
from perturank.service.tracking import Completed, Tracker


def fed(*entries: tuple[str, Entry]) -> list[list[Completed]]:
    tracker = Tracker()
    return [
        tracker.take(Record(position, 0, "m", name.encode() or None, entry))
        for position, (name, entry) in enumerate(entries, start=1)
    ]


def click(clicks: str, final: bool = False, effect: str = "counted") -> Feedback:
    return Feedback(list(clicks), final, effect)  # type: ignore[arg-type]


def test_final_feedback_completes_an_impression() -> None:
    found = fed(("x", impression()), ("x", click("a")), ("x", click("b", True)))
    assert found == [[], [], [Completed(3, 1, b"x", impression(), frozenset("ab"))]]


def test_a_closing_window_completes_all_up_to_it_in_order() -> None:
    found = fed(("x", impression()), ("y", impression(1)), ("z", impression(2)), ("x", click("c")), ("", Closed(2)))
    assert [(each.name, each.clicks) for each in found[-1]] == [(b"x", frozenset("c")), (b"y", frozenset())]


def test_late_feedback_changes_nothing() -> None:
    found = fed(("x", impression()), ("", Closed(1)), ("x", click("a", True, "late")))
    assert [len(each) for each in found] == [0, 1, 0]


def test_early_feedback_counts_when_its_impression_comes() -> None:
    found = fed(("x", click("a", False, "early")), ("x", click("", True, "early")), ("x", impression()))
    assert found[2] == [Completed(3, 1, b"x", impression(), frozenset("a"))]


def test_early_feedback_whose_impression_never_comes_is_forgotten() -> None:
    tracker = Tracker()
    tracker.take(Record(1, 0, "m", b"x", click("a", True, "early")))
    assert tracker.oldest == 1
    assert tracker.take(Record(2, 0, "m", None, Closed(1))) == []
    assert tracker.oldest is None


def test_feedback_on_an_impression_of_another_generation_is_passed_over() -> None:
    assert fed(("x", click("a", True))) == [[]]
