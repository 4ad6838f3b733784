"""The game itself: a person and a simulated crowd search, click, and watch what is learned."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import OrderedDict
from typing import Any

from perturank import clicks
from perturank.errors import unknown
from perturank.play import showing
from perturank.play.board import Board, Effect
from perturank.play.crowd import Crowd, Habit, Seen
from perturank.play.lessons import Lesson, lessons
from perturank.play.models import LEARNING
from perturank.play.searching import Found, SearchBox, Standing
from perturank.play.tally import clicked_places
from perturank.service.refusals import NotKnown, Refused

KEPT_SEARCHES = 500
MOST_CHARACTERS = 200
SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_TO_LEARN = 300.0  # on however busy a machine
PERSON = "you"


class Game:
    """Everything the page can do."""

    def __init__(self, box: SearchBox, seed: int) -> None:
        self.box, self.board = box, Board()
        self.crowd = Crowd(box, seed, self._seen)
        self._found: OrderedDict[str, Found] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._after: set[asyncio.Task[None]] = set()
        self._last_lesson = 0.0

    async def search(self, query: str) -> dict[str, Any]:
        """Return the lists for what a person typed."""
        if len(query) > MOST_CHARACTERS:
            raise Refused(f"the query has {len(query)} characters", f"use at most {MOST_CHARACTERS}")
        found, name = await self.box.search(query, PERSON), secrets.token_urlsafe(9)
        self._found[name] = found
        while len(self._found) > KEPT_SEARCHES:
            self._found.popitem(last=False)
        return showing.shown(self.box.library, found, name)

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
        taught = lessons(shown, [path], found.query, PERSON)
        if model == LEARNING and status == "recorded":
            self.board.tally.curves.add(clicked_places(shown, [path]))
            self.board.learned_from(taught)
            over = next((each for each in reversed(shown[: shown.index(path)])), None)
            self._follow(self._effect(found, before, path, over or (taught[0].loser if taught else None)))
        return {"status": status, "version": before.version, "lessons": [[each.winner, each.loser] for each in taught]}

    async def _effect(self, found: Found, before: Standing, path: str, over: str | None) -> None:
        """Show what the click has done to its own query, once it is learned."""
        # Where others click too, the next version may have been under way before this click.
        rises = 2 if self.board.simulating else 1
        end = time.monotonic() + SECONDS_TO_LEARN
        after = before
        while after.version < before.version + rises and time.monotonic() < end:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            after = await self.box.standing(found.question)
        self.board.effect = Effect(found.query, path, over, before, after)
        self.board.changed()

    def _follow(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._after.add(task)
        task.add_done_callback(self._after.discard)

    def users(self, on: bool, user: str, rate: float | None) -> None:
        """Let simulated users search at this rate from now on, or stop them."""
        if user not in clicks.users():
            raise unknown("user", user, clicks.users())
        self.crowd.habit = Habit(user, rate)
        if on and not self.board.simulating:
            self._task = asyncio.create_task(self.simulate(None))
        elif not on and self._task is not None:
            self._task.cancel()
        self.board.changed()

    async def simulate(self, n: int | None) -> None:
        """Let the crowd search n times, or until it is stopped."""
        self._task = asyncio.current_task()
        self.board.simulating, self.board.left = True, n
        try:
            await self.crowd.search(n)
        finally:
            self.board.simulating, self.board.left = False, None
            self.board.changed()

    async def compare(self, ranker: str | None) -> None:
        """Put another ranker beside the learning one, or none."""
        await self.box.compare(ranker)
        self.board.changed()

    def _seen(self, seen: Seen) -> None:
        self.board.tally.known_item(seen.ranks, seen.more)
        if self.board.left is not None:
            self.board.left -= 1
        if seen.clicked and time.monotonic() > self._last_lesson + 1:  # inferring them takes as long as a search
            self._last_lesson = time.monotonic()
            shown = seen.found.lists[LEARNING].ids
            self.board.learned_from(_first(lessons(shown, seen.clicked, seen.search.words, self.crowd.habit.user)))
        self.board.changed()

    async def look(self) -> None:
        """Keep the version on the board true, for as long as the service runs."""
        while True:
            version = int((await self.box.client.model(LEARNING))["version"])
            if version != self.board.version:
                self.board.version = version
                self.board.changed()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    def said(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        habit = self.crowd.habit
        about = {"user": habit.user, "rate": habit.rate, "beside": self.box.beside}
        return self.board.said() | about | {"documents": len(self.box.library.documents)}

    async def close(self) -> None:
        """End everything that was started here."""
        for task in [*self._after, *([self._task] if self._task else [])]:
            if task is not asyncio.current_task():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


def _first(found: list[Lesson]) -> list[Lesson]:
    return found[:1]
