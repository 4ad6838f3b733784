"""Simulated users: known-item searches at a chosen rate, with the clicks of one of the paper's users."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from perturank import clicks
from perturank.client import ShownList
from perturank.play.known_items import WANTED, Search
from perturank.play.models import LEARNING, PLACES
from perturank.play.searching import Found, SearchBox
from perturank.play.tally import BESIDE, BM25, LEARNED, clicked_places, reciprocal_rank

AT_ONCE = 4  # people who search at the same time
MOST_BEHIND = 128  # searches that the learner may be behind before people wait for it
SECONDS_TO_LOOK_AGAIN = 0.05
LOOK_EVERY = 25  # searches between two looks at what is certain
SOURCE = "simulated"


@dataclass(frozen=True)
class Habit:
    """Who searches, and how often a second; rate None: as fast as the service learns."""

    user: str = "perfect"
    rate: float | None = None


@dataclass(frozen=True)
class Seen:
    """One simulated search: reciprocal ranks by list, what else was noticed, and the clicks."""

    search: Search
    found: Found
    ranks: dict[str, float]
    more: dict[str, float]
    clicked: list[str]


class Crowd:
    """People who all look for something in the library; one seed decides what, and how they click."""

    def __init__(self, box: SearchBox, seed: int, seen: Callable[[Seen], None]) -> None:
        self._box, self._seen = box, seen
        self._searches = box.library.searches(seed)
        self._key = jax.random.key(seed)
        self._numbers = itertools.count()
        self._turn = asyncio.Lock()
        self._given = 0
        self.habit = Habit()

    async def search(self, n: int | None = None) -> None:
        """Search n times, or until cancelled; several people at once, each at their share of the rate."""
        left = itertools.repeat(None) if n is None else itertools.repeat(None, n)
        self._given = await self._box.learned()
        async with asyncio.TaskGroup() as people:
            for _ in range(AT_ONCE):
                people.create_task(self._person(left))

    async def _person(self, left: itertools.repeat[None]) -> None:
        for _ in left:
            began = time.monotonic()
            await self._one(*await self._next())
            rate = self.habit.rate
            if rate is None:
                await self._wait_for_the_learner()
            else:
                await asyncio.sleep(max(0.0, began + AT_ONCE / rate - time.monotonic()))

    async def _next(self) -> tuple[int, Search]:
        """Return the next search; dealing out many takes a second, in a thread of its own."""
        async with self._turn:
            return next(self._numbers), await asyncio.to_thread(next, self._searches)

    async def _one(self, number: int, search: Search) -> None:
        box, key = self._box, jax.random.fold_in(self._key, number)
        found = await box.search(search.words, SOURCE)
        wanted = box.library.documents[search.wanted].path
        ranks = {BM25: reciprocal_rank(found.question.ids[:PLACES], wanted), LEARNED: 0.0}
        more: dict[str, float] = {}
        clicked: list[str] = []
        for model, shown in found.lists.items():
            chosen = self._clicks(search, shown, key)
            await box.click(found, model, chosen)
            ranks[LEARNED if model == LEARNING else BESIDE] = reciprocal_rank(shown.ids, wanted)
            if model == LEARNING:
                self._given += 1
                clicked, more = chosen, clicked_places(shown.ids, chosen)
        if number % LOOK_EVERY == 0 and found.lists:
            uncertain = (await box.standing(found.question)).uncertain
            more |= {} if uncertain is None else {"uncertain": uncertain}
        self._seen(Seen(search, found, ranks, more, clicked))

    def _clicks(self, search: Search, shown: ShownList, key: jax.Array) -> list[str]:
        """Return what the user clicks in a list, by how well each document serves them."""
        library = self._box.library
        rows = [library.rows[path] for path in shown.ids]
        grades, mask = np.zeros(PLACES, np.int32), np.arange(PLACES) < len(rows)
        grades[: len(rows)] = library.items.grades(search.wanted, rows)
        happened = np.asarray(_clicked(clicks.user(self.habit.user, WANTED + 1), grades, mask, key))
        return [path for path, click in zip(shown.ids, happened, strict=False) if click]

    async def _wait_for_the_learner(self) -> None:
        if self._given % LOOK_EVERY == 0:
            while self._given - await self._box.learned() > MOST_BEHIND:
                await asyncio.sleep(SECONDS_TO_LOOK_AGAIN)


@eqx.filter_jit
def _clicked(user: clicks.User, grades: Any, mask: Any, key: jax.Array) -> jax.Array:
    return user.click(grades, mask, key)
