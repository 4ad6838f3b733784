from __future__ import annotations

from typing import Any

import pytest

from perturank.catalogue import published
from perturank.play.board import (
    BESIDE,
    BM25,
    ENDS,
    FEWEST,
    FIRST_WIDTH,
    LEARNED,
    MOST_POINTS,
    Board,
    Curves,
    Effect,
    Score,
    clicked_places,
    lessons,
)
from perturank.play.search_box import RANKER, PlaceInList


def test_the_outcome_compares_both_ends_with_bm25() -> None:
    tally = Score()
    for i in range(3 * ENDS):
        tally.known_item({BM25: 0.5, LEARNED: 0.25 if i < ENDS else 1.0}, {})
    assert tally.outcome() == {"searches": 3 * ENDS, "mrr_bm25": 0.5, "mrr_first": 0.25, "mrr_last": 1.0}
    assert tally.success() == {BM25: 0.0, LEARNED: 1.0, BESIDE: None}


def test_before_the_first_search_nothing_is_known() -> None:
    assert Score().outcome() == {"searches": 0, "mrr_bm25": None, "mrr_first": None, "mrr_last": None}
    assert Curves().ends() == []


def test_a_curve_never_has_more_points_than_fit_and_keeps_its_mean() -> None:
    curves = Curves()
    n = 3 * FIRST_WIDTH * MOST_POINTS
    for i in range(n):
        curves.add({"clicked place": float(i)} if i % 2 else {})
    assert curves.width == 4 * FIRST_WIDTH
    ends, values = curves.ends(), curves.points()["clicked place"]
    assert len(ends) == len(values) <= MOST_POINTS
    assert ends[-1] == n
    known = [value for value in values if value is not None]
    assert sum(known) / len(known) == pytest.approx(n / 2)
    assert curves.points()["uncertain"] == [None] * len(ends)


def test_a_curve_of_known_items_is_the_mean_over_the_last_searches() -> None:
    tally = Score()
    for i in range(2 * ENDS):
        tally.known_item({BM25: 0.5, LEARNED: float(i >= ENDS)}, {})
    learned = [value for value in tally.curves.points()[LEARNED] if value is not None]
    assert learned[0] == 0
    assert learned == sorted(learned)
    assert 0.8 < learned[-1] < 1


def test_a_person_sees_a_line_after_a_few_clicks() -> None:
    curves = Curves()
    for place in (3.0, 1.0, *[2.0] * 6):
        curves.add({"clicked place": place})
    assert curves.points()["clicked place"] == [2.0, 2.0]
    assert curves.ends() == [5, 8]


def test_a_mean_of_few_known_items_is_not_drawn() -> None:
    tally = Score()
    for _ in range(FEWEST - 1):
        tally.known_item({BM25: 0.5, LEARNED: 1.0}, {})
    assert set(tally.curves.points()[LEARNED]) == {None}
    tally.known_item({BM25: 0.5, LEARNED: 1.0}, {})
    assert tally.curves.points()[LEARNED][-1] == 1


def test_clicked_places_count_from_one_and_need_a_click() -> None:
    assert clicked_places(["a", "b", "c"], ["c", "b"]) == {"clicked place": 2.5, "reciprocal clicked place": 0.5}
    assert clicked_places(["a"], []) == {}


def test_an_older_click_does_not_hide_what_a_later_one_did() -> None:
    board, standing = Board(), PlaceInList(1, ["a", "b"], [1.0, 0.0], None)
    board.show_effect(2, Effect("words", "later", None, standing, standing))
    board.show_effect(1, Effect("words", "earlier", None, standing, standing))
    assert board.as_dict()["effect"]["clicked"] == "later"


def inferred(shown: list[str], clicked: list[str], ranker: str = RANKER, **changes: Any) -> set[tuple[str, str]]:
    settings = published(ranker).settings.changed(**changes).as_dict()
    return {(each.winner, each.loser) for each in lessons(settings, shown, clicked, "words", "you")}


def test_a_click_prefers_its_document_over_what_was_passed_and_the_next_one() -> None:
    assert inferred(["a", "b", "c", "d"], ["b"]) == {("b", "a"), ("b", "c")}
    (taught,) = lessons(published(RANKER).settings.as_dict(), ["a", "b"], ["b"], "words", "you")
    assert (taught.query, taught.who) == ("words", "you")


def test_a_list_without_a_click_says_nothing() -> None:
    assert inferred(["a", "b"], []) == set()


def test_the_rule_is_that_of_the_models_settings() -> None:
    assert inferred(["a", "b", "c", "d"], ["a"], examined_beyond=0) == set()
    assert inferred(["a", "b", "c", "d"], ["a"], examined_beyond=2) == {("a", "b"), ("a", "c")}
    low = ["a", "b", "c", "d"], ["c"]
    assert inferred(*low, inclusion="paper") - inferred(*low, inclusion="symmetric") == {("c", "a")}


@pytest.mark.parametrize(
    ("ranker", "expected"), [("pdgd-linear", {("a", "b")}), ("dbgd-linear", set()), ("random", set())]
)
def test_other_rankers_infer_by_their_own_rule_or_not_at_all(ranker: str, expected: set[tuple[str, str]]) -> None:
    assert inferred(["a", "b", "c"], ["a"], ranker) == expected
