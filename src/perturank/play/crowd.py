"""Simulated users: known-item searches at a chosen rate, with the clicks of one of the paper's users."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from perturank import clicks
from perturank.client import ShownList
from perturank.core import ClickModel
from perturank.errors import BadInput, unknown
from perturank.play.known_items import WANTED, Search
from perturank.play.models import LEARNING, PLACES
from perturank.play.searching import Found, SearchBox
from perturank.play.tally import BESIDE, BM25, LEARNED, clicked_places, reciprocal_rank, uncertain_pairs

MOST_A_SECOND = 1000
AT_ONCE = 4  # people who search at the same time
MOST_BEHIND = 128  # searches that the learner may be behind before people wait for it
SECONDS_TO_LOOK_AGAIN = 0.05
SECONDS_TO_LEARN = 120.0  # something: a history that has grown is compiled for
SECONDS_AT_REST = 0.25  # between two looks at a rate that may have changed
LOOK_EVERY = 25  # searches between two looks at what is certain
SOURCE = "simulated"


@dataclass(frozen=True)
class Habit:
    """Who searches, and how often a second; rate None: as fast as the service learns."""

    user: str = "perfect"
    rate: float | None = None

    def checked(self) -> Habit:
        """Return itself if there is such a user and such a rate."""
        if self.user not in clicks.users():
            raise unknown("user", self.user, clicks.users())
        if clicks.user(self.user, WANTED + 1).judges_by != "grades":
            raise BadInput(f"{self.user} users judge by true scores, which the library does not have", "use perfect")
        if self.rate is not None and not 0 < self.rate <= MOST_A_SECOND:
            raise BadInput(f"the rate is {self.rate:g}", f"use more than 0 and at most {MOST_A_SECOND} a second")
        return self


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
        self._turn, self._dealing = asyncio.Lock(), threading.Lock()
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
            await self._rest(began)
            if self.habit.rate is None:
                await self._wait_for_the_learner()

    async def _rest(self, began: float) -> None:
        """Wait for the person's next turn, at the rate that holds meanwhile."""
        while (rate := self.habit.rate) is not None and (left := began + AT_ONCE / rate - time.monotonic()) > 0:
            await asyncio.sleep(min(left, SECONDS_AT_REST))

    async def _next(self) -> tuple[int, Search]:
        """Return the next search; dealing out many takes a second, in a thread of its own."""
        async with self._turn:
            return next(self._numbers), await asyncio.to_thread(self._dealt)

    def _dealt(self) -> Search:
        with self._dealing:  # whoever is cancelled meanwhile leaves the thread behind, at work on the same searches
            return next(self._searches)

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
            more |= uncertain_pairs((await box.standing(found.question)).uncertain)
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
        if self._given % LOOK_EVERY:
            return
        most, since = 0, time.monotonic()
        while self._given - (learned := await self._box.learned()) > MOST_BEHIND:
            if learned > most:
                most, since = learned, time.monotonic()
            if time.monotonic() > since + SECONDS_TO_LEARN:
                raise BadInput(f"nothing was learned for {SECONDS_TO_LEARN:g} s", "is a learner at work?")
            await asyncio.sleep(SECONDS_TO_LOOK_AGAIN)


@eqx.filter_jit
def _clicked(user: ClickModel, grades: Any, mask: Any, key: jax.Array) -> jax.Array:
    return user.click(grades, mask, key)
