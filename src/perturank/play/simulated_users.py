"""Simulated users: each looks for one document by words that they remember of it, and clicks as a user of the paper."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from perturank import clicks
from perturank.client import ShownList
from perturank.core import ClickModel
from perturank.errors import BadInput, unknown
from perturank.play.board import BESIDE, BM25, LEARNED, clicked_places, reciprocal_rank, uncertain_pairs
from perturank.play.corpus import LibraryDocument
from perturank.play.search_box import LEARNING, PLACES, Results, SearchBox
from perturank.play.search_engine import STOP_WORDS, pieces

SHORTEST = 3
LENGTHS = (2, 3, 4, 5)
P_LENGTHS = (0.3, 0.35, 0.25, 0.1)
P_SUMMARY, P_NAME, P_MODULE = 0.6, 0.25, 0.15  # where a remembered word comes from
P_OTHER_FORM = 0.25  # "paths" for "path": people remember a word, not its form
WANTED, ALIAS, NAMESAKE = 4, 2, 1  # grades; everything else has 0
EQUALLY_HARD = 200  # searches in a row
DEALT_AT_ONCE = 2000
MOST_A_SECOND = 1000
AT_ONCE = 4  # people who search at the same time
MOST_BEHIND = 128  # searches that the learner may be behind before people wait for it
SECONDS_TO_LOOK_AGAIN = 0.05
SECONDS_TO_LEARN = 120.0  # something: a history that has grown is compiled for
SECONDS_AT_REST = 0.25  # between two looks at a rate that may have changed
LOOK_EVERY = 25  # searches between two looks at what is certain
SOURCE = "simulated"


@dataclass(frozen=True)
class KnownItemSearch:
    """What a person types, and the document they have in mind."""

    words: str
    wanted: int  # its row


def deal(
    searches: Iterator[KnownItemSearch], hardness: Callable[[KnownItemSearch], float], chance: np.random.Generator
) -> Iterator[KnownItemSearch]:
    """Yield the same searches in another order, in which any EQUALLY_HARD in a row are about equally hard.

    They are sorted by hardness and dealt out like cards. Without that, two stretches of 200 searches differ in
    hardness by chance as much as a ranker learns.
    """
    n_hands = DEALT_AT_ONCE // EQUALLY_HARD
    while True:
        some = sorted(itertools.islice(searches, DEALT_AT_ONCE), key=hardness)
        rounds = [some[i : i + n_hands] for i in range(0, len(some), n_hands)]
        for each in rounds:
            chance.shuffle(each)
        for hand in zip(*rounds, strict=True):
            yield from [hand[i] for i in chance.permutation(len(hand))]


def content_words(text: str) -> list[str]:
    """Return the words of a text that a person may remember, each once."""
    return list(dict.fromkeys(word for word in pieces(text) if len(word) >= SHORTEST and word not in STOP_WORDS))


def other_form(word: str) -> str:
    """Return a word in singular for plural, and the other way round; verbs without their -s.

    >>> other_form("paths"), other_form("join"), other_form("class")
    ('path', 'joins', 'class')
    """
    if word.endswith("ss"):
        return word
    return word[:-1] if word.endswith("s") else f"{word}s"


class KnownItems:
    """Searches for documents of a library; the same seed gives the same searches.

    People look for what programs use: a document's chance grows with the number of modules that use it. The
    ranker is not told so, it has to find out from the clicks.
    """

    def __init__(self, documents: Sequence[LibraryDocument]) -> None:
        self._remembered = [_remembered(each) for each in documents]
        self._findable = [row for row, (summary, *_) in enumerate(self._remembered) if len(summary) >= max(LENGTHS)]
        chances = np.array([1.0 + documents[row].uses for row in self._findable])
        self._up_to = np.cumsum(chances / chances.sum())
        self._names = [each.name.rpartition(".")[2] or each.path for each in documents]
        self._texts = [each.text for each in documents]

    def searches(self, seed: int) -> Iterator[KnownItemSearch]:
        """Yield searches without end."""
        chance = np.random.default_rng(seed)
        while True:
            at = int(np.searchsorted(self._up_to, chance.random(), side="right"))
            wanted = self._findable[min(at, len(self._findable) - 1)]
            yield KnownItemSearch(self._words(wanted, chance), wanted)

    def _words(self, wanted: int, chance: np.random.Generator) -> str:
        """Return some words of the document's first paragraph, of its name and of its module, each with its chance."""
        n, typed = chance.choice(LENGTHS, p=P_LENGTHS), dict[str, None]()
        sources = self._remembered[wanted]
        for source in chance.choice(3, size=n, p=(P_SUMMARY, P_NAME, P_MODULE)):
            words = sources[source] or sources[0]
            word = words[chance.integers(len(words))]
            typed[other_form(word) if chance.random() < P_OTHER_FORM else word] = None
        return " ".join(typed)

    def grades(self, wanted: int, rows: Sequence[int]) -> np.ndarray:
        """Return how well each document serves the one who looks for `wanted`; [n]."""
        return np.array([self._grade(wanted, row) for row in rows], np.int32)

    def _grade(self, wanted: int, row: int) -> int:
        if row == wanted:
            return WANTED
        if self._names[row] != self._names[wanted]:
            return 0
        return ALIAS if self._texts[row] == self._texts[wanted] else NAMESAKE


def _remembered(document: LibraryDocument) -> tuple[list[str], list[str], list[str]]:
    name = document.name.rpartition(".")[2]
    return content_words(document.summary), content_words(name), content_words(document.module)


@dataclass(frozen=True)
class Habit:
    """Who searches, and how often a second; rate None: as fast as the service learns."""

    user: str = "perfect"
    rate: float | None = None

    def check(self) -> None:
        """Refuse a user or a rate that does not exist."""
        if self.user not in clicks.users():
            raise unknown("user", self.user, clicks.users())
        if clicks.user(self.user, WANTED + 1).judges_by != "grades":
            raise BadInput(f"{self.user} users judge by true scores, which the library does not have", "use perfect")
        if self.rate is not None and not 0 < self.rate <= MOST_A_SECOND:
            raise BadInput(f"the rate is {self.rate:g}", f"use more than 0 and at most {MOST_A_SECOND} a second")


@dataclass(frozen=True)
class SimulatedSearch:
    """One simulated search: reciprocal ranks by list, what else was noticed, and the clicks."""

    search: KnownItemSearch
    found: Results
    ranks: dict[str, float]
    more: dict[str, float]
    clicked: list[str]


class Crowd:
    """People who all look for something in the library; one seed decides what, and how they click."""

    def __init__(self, box: SearchBox, seed: int, record: Callable[[SimulatedSearch], None]) -> None:
        self._box, self._record = box, record
        self._items = KnownItems(box.library.documents)
        self.searches = deal(self._items.searches(seed), self._hardness, np.random.default_rng([seed, 1]))
        self._key = jax.random.key(seed)
        self._numbers = itertools.count()
        self._turn, self._dealing = asyncio.Lock(), threading.Lock()
        self._given = 0
        self.habit = Habit()

    async def search(self, n: int | None = None) -> None:
        """Search n times, or until cancelled; several people at once, each at their share of the rate."""
        left = itertools.repeat(None) if n is None else itertools.repeat(None, n)
        self._given = await self._box.n_learned()
        async with asyncio.TaskGroup() as people:
            for _ in range(AT_ONCE):
                people.create_task(self._person(left))

    async def _person(self, left: itertools.repeat[None]) -> None:
        for _ in left:
            began = time.monotonic()
            await self._search_once(*await self._next())
            await self._rest(began)
            if self.habit.rate is None:
                await self._wait_for_the_learner()

    async def _rest(self, began: float) -> None:
        """Wait for the person's next turn, at the rate that holds meanwhile."""
        while (rate := self.habit.rate) is not None and (left := began + AT_ONCE / rate - time.monotonic()) > 0:
            await asyncio.sleep(min(left, SECONDS_AT_REST))

    async def _next(self) -> tuple[int, KnownItemSearch]:
        """Return the next search; dealing out many takes a second, in a thread of its own."""
        async with self._turn:
            return next(self._numbers), await asyncio.to_thread(self._deal)

    def _deal(self) -> KnownItemSearch:
        with self._dealing:  # whoever is cancelled meanwhile leaves the thread behind, at work on the same searches
            return next(self.searches)

    def _hardness(self, search: KnownItemSearch) -> int:
        return self._box.library.bm25_place(search.words, search.wanted)

    async def _search_once(self, number: int, search: KnownItemSearch) -> None:
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
        self._record(SimulatedSearch(search, found, ranks, more, clicked))

    def _clicks(self, search: KnownItemSearch, shown: ShownList, key: jax.Array) -> list[str]:
        """Return what the user clicks in a list, by how well each document serves them."""
        library = self._box.library
        rows = [library.rows[path] for path in shown.ids]
        grades, mask = np.zeros(PLACES, np.int32), np.arange(PLACES) < len(rows)
        grades[: len(rows)] = self._items.grades(search.wanted, rows)
        happened = np.asarray(_draw_clicks(clicks.user(self.habit.user, WANTED + 1), grades, mask, key))
        return [path for path, click in zip(shown.ids, happened, strict=False) if click]

    async def _wait_for_the_learner(self) -> None:
        if self._given % LOOK_EVERY:
            return
        most, since = 0, time.monotonic()
        while self._given - (learned := await self._box.n_learned()) > MOST_BEHIND:
            if learned > most:
                most, since = learned, time.monotonic()
            if time.monotonic() > since + SECONDS_TO_LEARN:
                raise BadInput(f"nothing was learned for {SECONDS_TO_LEARN:g} s", "is a learner at work?")
            await asyncio.sleep(SECONDS_TO_LOOK_AGAIN)


@eqx.filter_jit
def _draw_clicks(user: ClickModel, grades: Any, mask: Any, key: jax.Array) -> jax.Array:
    return user.click(grades, mask, key)
