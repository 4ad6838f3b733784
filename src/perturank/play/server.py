"""`perturank play`: the service as `perturank serve` starts it, with the endpoints of the game beside it."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from perturank import pages
from perturank.catalogue import published
from perturank.client import AsyncClient
from perturank.play.corpus import LibraryDocument
from perturank.play.game import Game, first_of
from perturank.play.search_box import RANKER, Library, SearchBox, model_beside
from perturank.play.search_engine import MOST
from perturank.play.simulated_users import MOST_A_SECOND, Habit
from perturank.service.http.app import Added
from perturank.service.http.decoding import decode, respond
from perturank.service.http.server import serve
from perturank.service.settings import ServeSettings

SECONDS_BETWEEN_EVENTS = 0.5
SECONDS_TO_LOOK_AGAIN = 0.1
SECONDS_TO_ANSWER = 60.0  # the first list waits for its compilation
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

    def table(self) -> Added:
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
        asked = await decode(request, Users)
        self._game.set_users(asked.on, Habit(asked.user, asked.rate))
        return respond(request, self._game.state())

    async def beside(self, request: Request) -> Response:
        """Put a ranker beside."""
        await self._game.compare((await decode(request, Beside)).ranker)
        return respond(request, self._game.state())

    async def state(self, request: Request) -> Response:
        """Answer with the state once."""
        return respond(request, self._game.state())

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
                yield b"data: " + msgspec.json.encode(self._game.state()) + b"\n\n"
            elif (silent := silent + 1) % LOOKS_TO_A_SIGN == 0:
                yield b": still here\n\n"
            await asyncio.sleep(SECONDS_BETWEEN_EVENTS)


@dataclass(frozen=True)
class PlaySettings:
    """What the command line asks for."""

    simulate: int | None
    habit: Habit
    beside: str | None
    seed: int
    port: int
    ends: bool  # when the simulated searches are done
    settings: Mapping[str, str]  # of the learning ranker

    def check(self) -> None:
        """Refuse a user, a ranker or a setting that does not exist."""
        self.habit.check()
        if self.beside is not None:
            model_beside(self.beside)
        self.ranker_settings()

    def ranker_settings(self) -> dict[str, Any]:
        """Return the settings that were given, as values."""
        known = published(RANKER).settings.parsed(self.settings).as_dict()
        return {name: known[name] for name in self.settings}


class PlayServer:
    """One run of the command, and what came of it."""

    def __init__(self, documents: list[LibraryDocument], settings: PlaySettings, say: Callable[[str], None]) -> None:
        self._library, self._settings, self._say = Library(documents), settings, say
        self.outcome: dict[str, Any] | None = None
        self.failure: BaseException | None = None

    def run(self, folder: Path) -> None:
        """Serve until told to stop, or until the simulation is over."""
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
        service = ServeSettings(
            port=self._settings.port, log=f"sqlite:///{folder / 'perturank.db'}", max_documents=MOST
        )
        serve(service, lambda welcome: None, self._add)
        if self.failure is not None:
            raise self.failure

    def _add(self, address: str) -> Added:
        client = AsyncClient(address, timeout=SECONDS_TO_ANSWER)
        box = SearchBox(self._library, client, self._settings.seed, self._settings.ranker_settings())
        game = Game(box, self._settings.seed)
        return Routes(game).table()._replace(work=lambda: self.play(game, address))

    async def play(self, game: Game, address: str) -> None:
        """Do what was asked for while the service runs; what fails ends it."""
        try:
            await self._play(game, address)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.failure = first_of(error)
            signal.raise_signal(signal.SIGTERM)
        finally:
            await game.close()

    async def _play(self, game: Game, address: str) -> None:
        await _wait_until_ready(game.box.client)
        await game.box.open()
        await game.compare(self._settings.beside)
        await _wait_until_ready(game.box.client)
        self._say(f"search at {address}/play; Ctrl-C ends it")
        game.crowd.habit = self._settings.habit
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(game.follow_version())
            if self._settings.simulate is not None:
                await game.simulate(self._settings.simulate)
                self.outcome = game.board.tally.outcome()
                self._say(_summary(self.outcome))
                if self._settings.ends:
                    signal.raise_signal(signal.SIGTERM)


async def _wait_until_ready(client: AsyncClient) -> None:
    """Wait until the service answers, and everything it needs is compiled."""
    while (await client.ready())["status"] != "ready":
        await asyncio.sleep(SECONDS_TO_LOOK_AGAIN)


def _summary(outcome: Mapping[str, Any]) -> str:
    if not outcome["searches"]:
        return "no known-item searches: the simulated users were switched off"
    return (
        f"{outcome['searches']} known-item searches, mean reciprocal rank of the wanted document: "
        f"BM25's order {outcome['mrr_bm25']:.3f}, at first {outcome['mrr_first']:.3f}, "
        f"now {outcome['mrr_last']:.3f}"
    )
