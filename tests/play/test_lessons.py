from __future__ import annotations

from typing import Any

import pytest

from perturank.catalogue import published
from perturank.play.lessons import lessons
from perturank.play.models import RANKER


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
