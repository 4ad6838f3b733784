"""What the page asks for: searches, clicks, the crowd's switch, the ranker beside, and the live state."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from perturank import pages
from perturank.play.crowd import MOST_A_SECOND, Habit
from perturank.play.game import Game
from perturank.service.http.app import Added
from perturank.service.http.decoding import decode, respond

SECONDS_BETWEEN_LOOKS = 0.5
LOOKS_TO_A_SIGN = 20  # of life, where nothing changes: connections that stay silent are cut on their way

NOT_KEPT = {"cache-control": "no-store", "x-accel-buffering": "no"}
Rate = Annotated[float, msgspec.Meta(gt=0, le=MOST_A_SECOND)]


class Search(msgspec.Struct, forbid_unknown_fields=True):
    """What a person typed."""

    query: str


class Click(msgspec.Struct, forbid_unknown_fields=True):
    """What a person chose, in which list of which search."""

    search: str
    model: str
    path: str


class Users(msgspec.Struct, forbid_unknown_fields=True):
    """The switch of the simulated users; rate null: as fast as the service learns."""

    on: bool
    user: str
    rate: Rate | None = None


class Beside(msgspec.Struct, forbid_unknown_fields=True):
    """The ranker to compare with; null: none."""

    ranker: str | None


class Routes:
    """The endpoints of one game."""

    def __init__(self, game: Game) -> None:
        self._game = game

    def added(self) -> Added:
        """Return the page and its endpoints, to be put into the service."""
        return Added(
            [pages.page("/play", "play")],
            [
                ("POST", "/play/search", self.search),
                ("POST", "/play/click", self.click),
                ("PUT", "/play/users", self.users),
                ("PUT", "/play/beside", self.beside),
                ("GET", "/play/state", self.state),
                ("GET", "/play/events", self.events),
            ],
        )

    async def search(self, request: Request) -> Response:
        """Answer with results."""
        return respond(request, await self._game.search((await decode(request, Search)).query))

    async def click(self, request: Request) -> Response:
        """Answer with what the click says; its effect comes as an event."""
        click = await decode(request, Click)
        return respond(request, await self._game.click(click.search, click.model, click.path))

    async def users(self, request: Request) -> Response:
        """Switch the simulated users on or off."""
        wish = await decode(request, Users)
        self._game.users(wish.on, Habit(wish.user, wish.rate))
        return respond(request, self._game.said())

    async def beside(self, request: Request) -> Response:
        """Put a ranker beside."""
        await self._game.compare((await decode(request, Beside)).ranker)
        return respond(request, self._game.said())

    async def state(self, request: Request) -> Response:
        """Answer with the state once."""
        return respond(request, self._game.said())

    async def events(self, request: Request) -> Response:
        """Answer with the state whenever it has changed, as server-sent events."""
        return StreamingResponse(
            self._changes(request.app.state.service.stopping), media_type="text/event-stream", headers=NOT_KEPT
        )

    async def _changes(self, stopping: threading.Event) -> AsyncIterator[bytes]:
        told, silent = -1, 0
        while not stopping.is_set():
            if self._game.board.changes != told:
                told, silent = self._game.board.changes, 0
                yield b"data: " + msgspec.json.encode(self._game.said()) + b"\n\n"
            elif (silent := silent + 1) % LOOKS_TO_A_SIGN == 0:
                yield b": still here\n\n"
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
