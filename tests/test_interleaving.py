from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from oracles import anytime as oracle
from pytest import approx, mark

from perturank.interleaving import NOBODY, credits, team_draft

LISTS = (
    ([0, 1, 2, 3], [0, 2, 1, 3]),
    ([0, 1, 2, 3], [3, 2, 1, 0]),
    ([0, 1, 2], [2, 1, 0], [1, 2, 0]),
    ([0, 1, 2, 3], [0, 1]),
)


@mark.parametrize("lists", LISTS)
@mark.parametrize("top", [3, 4])
def test_drafts_follow_the_law_of_the_definition(lists: tuple[list[int], ...], top: int) -> None:
    chance, n = random.Random(1), 4000
    drawn = Counter((tuple(order), tuple(teams)) for order, teams in (team_draft(lists, top, chance) for _ in range(n)))
    law = oracle.team_drafts(lists, top)
    assert drawn.keys() == law.keys()
    for outcome, p in law.items():
        assert drawn[outcome] / n == approx(p, abs=5 * (p * (1 - p) / n) ** 0.5 + 1e-9)


@given(st.permutations(range(8)), st.permutations(range(8)), st.integers(1, 8), st.integers(0, 99))
def test_a_draft_has_the_best_of_each_list_once_and_teams_of_equal_size(
    one: list[int], other: list[int], top: int, seed: int
) -> None:
    order, teams = team_draft([one, other], top, random.Random(seed))
    assert len(order) == len(set(order)) == len(teams) == top
    assert abs(teams.count(0) - teams.count(1)) <= 1
    for ranked, team in ((one, 0), (other, 1)):
        own = [document for document, of in zip(order, teams, strict=True) if of in (team, NOBODY)]
        assert own == sorted(own, key=ranked.index)


def test_equal_lists_are_shown_as_they_are_and_nobody_earns() -> None:
    order, teams = team_draft([[3, 1, 2]] * 2, 3, random.Random(1))
    assert (order, teams) == ([3, 1, 2], [NOBODY] * 3)
    assert credits({3: 1.0}, order, teams, 2) == [0.0, 0.0]


def test_credit_is_the_worth_of_a_teams_documents() -> None:
    assert credits({"a": 1.0, "b": 10.0, "c": -1.0}, ["a", "b", "c", "d"], [0, 1, 0, 1], 2) == [0.0, 10.0]
