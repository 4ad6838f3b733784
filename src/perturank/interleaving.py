"""Lists of several rankers made into one, so that people who see it compare them (team draft; Radlinski et al., 2008).

`parts/ordering.py` has the same inside compiled programs, for rankers that duel with themselves.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)
NOBODY = -1  # the team of a document that all rankers agree on


class Draft(NamedTuple):
    """An interleaved list, and the team (ranker) of each place."""

    order: list[int]
    teams: list[int]


def team_draft(lists: Sequence[Sequence[int]], top: int, chance: random.Random) -> Draft:
    """Return a list of at most `top` documents, drafted from these lists, best first.

    In every round each ranker, in random order, adds the best of its documents that is left. Where all rankers would
    add the same document next, it belongs to nobody: a click on it says nothing about who is better, and would only
    add noise. Swapping the rankers swaps their teams and changes nothing else. So rankers that are alike earn
    differences that are symmetric around 0.

    >>> team_draft([[1, 2, 3], [1, 3, 2]], 3, random.Random(1))
    Draft(order=[1, 3, 2], teams=[-1, 1, 0])
    """
    order: list[int] = []
    teams: list[int] = []
    placed: set[int] = set()
    at = [0] * len(lists)
    waiting: list[int] = []  # rankers that have still to add a document in this round

    def next_of(ranker: int) -> int | None:
        while at[ranker] < len(lists[ranker]) and lists[ranker][at[ranker]] in placed:
            at[ranker] += 1
        return lists[ranker][at[ranker]] if at[ranker] < len(lists[ranker]) else None

    while len(order) < top:
        if not waiting:
            nexts = [next_of(ranker) for ranker in range(len(lists))]
            waiting = [ranker for ranker, document in enumerate(nexts) if document is not None]
            if not waiting:
                break
            agreed = len(set(nexts)) == 1
            waiting = [waiting[0]] if agreed else chance.sample(waiting, len(waiting))
            team = NOBODY if agreed else waiting[-1]
        else:
            team = waiting[-1]
        document = next_of(waiting.pop())
        if document is not None:
            order.append(document)
            teams.append(team)
            placed.add(document)
    return Draft(order, teams)


def credits(worths: Mapping[T, float], shown: Sequence[T], teams: Sequence[int], n: int) -> list[float]:
    """Return what each of n teams has earned with these worths of documents.

    >>> credits({"a": 1.0, "c": 10.0}, ["a", "b", "c"], [1, 0, -1], 2)
    [0.0, 1.0]
    """
    earned = [0.0] * n
    for document, team in zip(shown, teams, strict=True):
        if team != NOBODY:
            earned[team] += worths.get(document, 0.0)
    return earned


def pairs(n: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of n arms, each of which is compared.

    >>> list(pairs(3))
    [(0, 1), (0, 2), (1, 2)]
    """
    return combinations(range(n), 2)
