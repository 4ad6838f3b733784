from __future__ import annotations

import tracemalloc

from helpers.service_small import impression

from perturank.service.learner.state import Completed, Heard, Tracker
from perturank.service.log.records import Closed, Entry, Event, Feedback, Impression, Record, Settled, new_id


def fed(*entries: tuple[str, Entry]) -> list[list[Completed]]:
    tracker = Tracker(str.encode)
    return [
        tracker.take(Record(position, 0, "m", name.encode() or None, entry))
        for position, (name, entry) in enumerate(entries, start=1)
    ]


def click(clicks: str, final: bool = False, effect: str = "counted", seen: int = 0) -> Feedback:
    return Feedback(list(clicks), final, effect, [], seen)  # type: ignore[arg-type]


def bought(document: str) -> Feedback:
    return Feedback([], False, "counted", [Event(document, "purchase", 9.5)])


def heard(clicks: str = "", bought: str = "", seen: int = 0) -> Heard:
    return Heard(frozenset(clicks), frozenset((each, "purchase") for each in bought), seen)


def test_final_feedback_completes_an_impression() -> None:
    found = fed(("x", impression()), ("x", click("a")), ("x", click("b", True)))
    assert found == [[], [], [Completed(3, 1, 1, b"x", "learn", None, frozenset("ab"))]]


def test_settled_events_complete_an_impression_and_later_ones_complete_it_again() -> None:
    settled = Settled([b"x"])
    found = fed(("x", impression()), ("x", click("a")), ("", settled), ("x", bought("b")), ("", settled), ("", settled))
    assert [[(each.heard, each.before) for each in some] for some in found[2:]] == [
        [(heard("a"), None)],
        [],
        [(heard("a", "b"), heard("a"))],
        [],  # nothing is new
    ]


def test_events_after_final_feedback_complete_an_impression_again_with_its_window() -> None:
    found = fed(("x", impression()), ("x", click("a", True)), ("x", click("b", seen=3)), ("", Closed(1)))
    assert [(each.heard, each.before) for each in found[3]] == [(heard("ab", seen=3), heard("a"))]
    assert fed(("x", impression()), ("x", click("a", True)), ("", Closed(1)))[2] == []


def test_final_feedback_without_an_event_completes_an_impression_once() -> None:
    found = fed(("x", impression()), ("x", click("", True)), ("x", click("", True)), ("", Closed(1)))
    assert [len(each) for each in found] == [0, 1, 0, 0]


def test_early_events_that_settle_count_when_their_impression_comes() -> None:
    found = fed(("x", click("a", False, "early")), ("", Settled([b"x"])), ("x", impression()), ("", Closed(9)))
    assert [len(each) for each in found] == [0, 0, 1, 0]


def test_what_settles_after_its_window_is_nothing() -> None:
    found = fed(("x", impression()), ("x", click("a")), ("", Closed(1)), ("", Settled([b"x"])))
    assert [len(each) for each in found] == [0, 0, 1, 0]


def test_an_impression_waits_until_its_window_closes() -> None:
    tracker = Tracker(str.encode)
    tracker.take(Record(1, 0, "m", b"x", impression()))
    tracker.take(Record(2, 0, "m", b"x", click("a", True)))
    assert tracker.oldest == 1
    tracker.take(Record(3, 0, "m", None, Closed(1)))
    assert tracker.oldest is None


def test_a_closing_window_completes_all_up_to_it_in_order() -> None:
    found = fed(("x", impression()), ("y", impression(1)), ("z", impression(2)), ("x", click("c")), ("", Closed(2)))
    assert [(each.name, each.clicks) for each in found[-1]] == [(b"x", frozenset("c")), (b"y", frozenset())]


def test_late_feedback_changes_nothing() -> None:
    found = fed(("x", impression()), ("", Closed(1)), ("x", click("a", True, "late")))
    assert [len(each) for each in found] == [0, 1, 0]


def test_early_feedback_counts_when_its_impression_comes() -> None:
    found = fed(("x", click("a", False, "early")), ("x", click("", True, "early")), ("x", impression(source="user")))
    assert found[2] == [Completed(3, 1, 3, b"x", "learn", b"user", frozenset("a"))]


def test_early_feedback_whose_impression_never_comes_is_forgotten() -> None:
    tracker = Tracker(str.encode)
    tracker.take(Record(1, 0, "m", b"x", click("a", True, "early")))
    assert tracker.oldest == 1
    assert tracker.take(Record(2, 0, "m", None, Closed(1))) == []
    assert tracker.oldest is None


def test_feedback_on_an_impression_of_another_generation_is_passed_over() -> None:
    assert fed(("x", click("a", True))) == [[]]


def test_a_list_whose_clicks_came_first_keeps_its_place_among_those_that_close() -> None:
    first: list[tuple[str, Entry]] = [
        ("x", click("a", False, "early")),
        ("y", impression(1)),
        ("x", impression()),
        ("z", impression(2)),
    ]
    found = fed(*first, ("", Closed(2)), ("", Closed(9)))
    assert [[each.name for each in some] for some in found[-2:]] == [[b"y"], [b"x", b"z"]]
    assert [each.name for each in fed(*first, ("", Closed(9)))[-1]] == [b"x", b"y", b"z"]


def test_a_list_that_waits_takes_little_memory_whatever_it_showed() -> None:
    def large(position: int) -> Record:
        entry = Impression(1, 0, "learn", ["a", "b"], -1.0, bytes(10_000), f"user {position}")
        return Record(position, 0, "m", new_id(position), entry)

    tracker = Tracker(str.encode)
    tracemalloc.start()
    for position in range(500):
        tracker.take(large(position))
    n_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n_bytes < 500 * 400


def test_what_a_source_showed_is_waited_for_no_longer() -> None:
    tracker = Tracker(str.encode)
    for position, source in enumerate(("alice", "bob", None), start=1):
        tracker.take(Record(position, 0, "m", new_id(position), impression(source=source)))
    tracker.forget(b"alice")
    assert tracker.oldest == 2
    assert [each.source for each in tracker.take(Record(9, 0, "m", None, Closed(5)))] == [b"bob", None]
