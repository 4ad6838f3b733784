from __future__ import annotations

from perturank.play.lessons import lessons


def test_a_click_prefers_its_document_over_what_was_passed_and_the_next_one() -> None:
    taught = lessons(["a", "b", "c", "d"], ["b"], "words", "you")
    assert {(each.winner, each.loser) for each in taught} == {("b", "a"), ("b", "c")}
    assert {(each.query, each.who) for each in taught} == {("words", "you")}


def test_a_list_without_a_click_says_nothing() -> None:
    assert lessons(["a", "b"], [], "words", "you") == []
