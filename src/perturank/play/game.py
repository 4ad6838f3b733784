"""The game itself: a person and a simulated crowd search, click, and watch what is learned."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

from perturank.errors import BadInput
from perturank.play.board import BESIDE, NO_EFFECT, Board, Effect, clicked_places, lessons, uncertain_pairs
from perturank.play.corpus import LibraryDocument
from perturank.play.search_box import LEARNING, Library, PlaceInList, Results, SearchBox, model_beside
from perturank.play.search_engine import highlight, terms
from perturank.play.simulated_users import Crowd, Habit, SimulatedSearch
from perturank.service.log.refusals import NotKnown, Refused

KEPT_SEARCHES = 500
MOST_QUERY, MOST_SIGNATURE, MOST_SUMMARY = 200, 160, 240  # characters
SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_TO_LEARN = 300.0  # on however busy a machine
PERSON = "you"
NOBODY_SEARCHES = "the simulated users have stopped"

log = logging.getLogger("perturank.play")


class Game:
    """Everything the page can do."""

    def __init__(self, box: SearchBox, seed: int) -> None:
        self.box, self.board = box, Board()
        self.crowd = Crowd(box, seed, self._record)
        self._found: OrderedDict[str, Results] = OrderedDict()
        self._searching: asyncio.Task[None] | None = None  # the crowd's, and nothing else
        self._after: set[asyncio.Task[None]] = set()  # what is to end before the game does
        self._clicks = itertools.count(1)
        self._last_lesson = 0.0

    async def search(self, query: str) -> dict[str, Any]:
        """Return the lists for what a person typed."""
        if len(query) > MOST_QUERY:
            raise Refused(f"the query has {len(query)} characters", f"use at most {MOST_QUERY}")
        found, name = await self.box.search(query, PERSON), secrets.token_urlsafe(9)
        self._found[name] = found
        while len(self._found) > KEPT_SEARCHES:
            self._found.popitem(last=False)
        return describe_results(self.box.library, found, name)

    async def click(self, name: str, model: str, path: str) -> dict[str, Any]:
        """Teach the model that a person prefers this document; return what that says."""
        found = self._found.get(name)
        if found is None or model not in found.lists:
            raise NotKnown("this search is not known any more", "search again")
        shown = found.lists[model].ids
        if path not in shown:
            raise Refused(f"{path!r} was not in this list", "click what was shown")
        before = await self.box.standing(found.question, model)
        status = await self.box.click(found, model, [path])
        taught = lessons(self.box.settings[model], shown, [path], found.query, PERSON)
        if model == LEARNING and status == "recorded":
            self.board.tally.curves.add(clicked_places(shown, [path]) | uncertain_pairs(before.uncertain))
            self.board.add_lessons(taught)
            over = next((each for each in reversed(shown[: shown.index(path)])), None)
            over = over or (taught[0].loser if taught else None)
            self._start(self._show_effect(next(self._clicks), found, before, path, over))
        return {"status": status, "version": before.version, "lessons": [[each.winner, each.loser] for each in taught]}

    async def _show_effect(self, number: int, found: Results, before: PlaceInList, path: str, over: str | None) -> None:
        """Show what the click has done to its own query, once it is learned."""
        # Where others click too, the next version may have been under way before this click.
        rises = 2 if self.board.simulating else 1
        end = time.monotonic() + SECONDS_TO_LEARN
        after = before
        while after.version < before.version + rises and time.monotonic() < end:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            after = await self.box.standing(found.question)
        if after.version == before.version:
            raise BadInput(f"it was not learned in {SECONDS_TO_LEARN:g} s", "is a learner at work?")
        self.board.show_effect(number, Effect(found.query, path, over, before, after))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._after.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._after.discard(task)
        self._show_failure(NO_EFFECT, task)

    def _show_failure(self, what: str, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            why = first_of(error)
            log.error("%s: %s", what, why, exc_info=None if isinstance(why, BadInput) else why)
            self.board.faults[what] = str(why) or type(why).__name__
            self.board.notify()

    def set_users(self, on: bool, habit: Habit) -> None:
        """Let simulated users search like this from now on, or stop them."""
        habit.check()
        self.crowd.habit = habit
        if on and not self.board.simulating:
            self._begin(None)
        elif not on and self._searching is not None:
            self._searching.cancel()
            self._after.add(self._searching)
            self._end(self._searching)  # here and now: whoever switches them on again need not wait for its end
        self.board.notify()

    async def simulate(self, n: int) -> None:
        """Let the crowd search n times, or until it is switched off; its failure is raised."""
        searching = self._begin(n)
        await asyncio.gather(searching, return_exceptions=True)  # who cancels this cancels the crowd, not vice versa
        if not searching.cancelled():
            searching.result()

    def _begin(self, n: int | None) -> asyncio.Task[None]:
        self.board.simulating, self.board.left = True, n
        self.board.faults.pop(NOBODY_SEARCHES, None)
        self._searching = asyncio.create_task(self.crowd.search(n))
        self._searching.add_done_callback(self._end)
        return self._searching

    def _end(self, searching: asyncio.Task[None]) -> None:
        if searching is self._searching:
            self._searching, self.board.simulating, self.board.left = None, False, None
            self.board.notify()
        if searching.done():
            self._after.discard(searching)
            self._show_failure(NOBODY_SEARCHES, searching)

    async def compare(self, ranker: str | None) -> None:
        """Put another ranker beside the learning one, or none."""
        before = self.box.beside
        await self.box.compare(ranker)
        if ranker != before:
            self.board.tally.forget_beside()
        self.board.notify()

    def _record(self, seen: SimulatedSearch) -> None:
        ranks = dict(seen.ranks)
        if self.box.beside is None or model_beside(self.box.beside) not in seen.found.lists:
            ranks.pop(BESIDE, None)  # of a ranker that stood there when the search began
        self.board.tally.known_item(ranks, seen.more)
        if self.board.left is not None:
            self.board.left -= 1
        if seen.clicked and time.monotonic() > self._last_lesson + 1:  # inferring them takes as long as a search
            self._last_lesson = time.monotonic()
            shown = seen.found.lists[LEARNING].ids
            taught = lessons(self.box.settings[LEARNING], shown, seen.clicked, seen.search.words, self.crowd.habit.user)
            self.board.add_lessons(taught[:1])
        self.board.notify()

    async def follow_version(self) -> None:
        """Keep the version on the board true, for as long as the service runs."""
        while True:
            version = int((await self.box.client.model(LEARNING))["version"])
            if version != self.board.version:
                self.board.version = version
                self.board.notify()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        habit = self.crowd.habit
        about = {"user": habit.user, "rate": habit.rate, "beside": self.box.beside}
        return self.board.as_dict() | about | {"documents": len(self.box.library.documents)}

    async def close(self) -> None:
        """End everything that was started here."""
        under_way = [*self._after, *([self._searching] if self._searching else [])]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self.box.client.close()


def first_of(error: BaseException) -> BaseException:
    """Return the error itself, or the first of several that came together."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def describe_results(library: Library, found: Results, name: str) -> dict[str, Any]:
    """Return one search with the lists of all models, best first; `name` is what a click has to say."""
    wanted = frozenset(terms(found.query))
    by_bm25 = {path: place for place, path in enumerate(found.question.ids, 1)}

    def result(path: str, certain: bool) -> dict[str, Any]:
        document = library.documents[library.rows[path]]
        return describe_document(document, wanted) | {"path": path, "certain": certain, "bm25": by_bm25[path]}

    lists = [
        {
            "model": model,
            "version": each.version,
            "results": [result(path, certain) for path, certain in zip(each.ids, each.certain, strict=True)],
        }
        for model, each in found.lists.items()
    ]
    return {"search": name, "query": found.query, "candidates": len(found.question.ids), "lists": lists}


def describe_document(document: LibraryDocument, wanted: frozenset[str]) -> dict[str, Any]:
    """Return a document as a result: its name and first lines in parts, those that match marked."""
    return {
        "title": highlight(document.path, wanted),
        "kind": document.kind,
        "signature": _cut(document.signature, MOST_SIGNATURE),
        "lines": highlight(_cut(document.summary, MOST_SUMMARY), wanted),
    }


def _cut(text: str, most: int) -> str:
    """Return the text, or its beginning up to a word's end."""
    return text if len(text) <= most else f"{text[: text.rfind(' ', most // 2, most)]} …"
