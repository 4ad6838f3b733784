"""`perturank play`: the service as `perturank serve` starts it, with the game beside it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perturank.catalogue import published
from perturank.client import AsyncClient
from perturank.play.corpus import Document
from perturank.play.crowd import Habit
from perturank.play.engine import MOST
from perturank.play.game import Game, first_of
from perturank.play.library import Library
from perturank.play.models import RANKER, beside
from perturank.play.routes import Routes
from perturank.play.searching import SearchBox
from perturank.service.http.app import Added
from perturank.service.http.server import serve
from perturank.service.settings import ServeSettings

SECONDS_TO_LOOK_AGAIN = 0.1
SECONDS_TO_ANSWER = 60.0  # the first list waits for its compilation


@dataclass(frozen=True)
class Wish:
    """What the command line asks for."""

    simulate: int | None
    habit: Habit
    beside: str | None
    seed: int
    port: int
    ends: bool  # when the simulated searches are done
    settings: Mapping[str, str]  # of the learning ranker

    def checked(self) -> Wish:
        """Return itself if there is everything that it names."""
        self.habit.checked()
        if self.beside is not None:
            beside(self.beside)
        self.changed_settings()
        return self

    def changed_settings(self) -> dict[str, Any]:
        """Return the settings that were given, as values."""
        known = published(RANKER).settings.parsed(self.settings).as_dict()
        return {name: known[name] for name in self.settings}


class Playing:
    """One run of the command: what it is for, what came of it."""

    def __init__(self, documents: list[Document], wish: Wish, said: Callable[[str], None]) -> None:
        self._library, self._wish, self._say = Library(documents), wish, said
        self.outcome: dict[str, Any] | None = None
        self.failure: BaseException | None = None

    def run(self, folder: Path) -> None:
        """Serve until told to stop, or until the simulation is over."""
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
        settings = ServeSettings(port=self._wish.port, log=f"sqlite:///{folder / 'perturank.db'}", documents=MOST)
        serve(settings, lambda welcome: None, self._added)
        if self.failure is not None:
            raise self.failure

    def _added(self, address: str) -> Added:
        client = AsyncClient(address, timeout=SECONDS_TO_ANSWER)
        box = SearchBox(self._library, client, self._wish.seed, self._wish.changed_settings())
        game = Game(box, self._wish.seed)
        return Routes(game).added()._replace(work=lambda: self._work(game, address))

    async def _work(self, game: Game, address: str) -> None:
        """Do what was asked for while the service runs; what fails ends it."""
        try:
            await self._played(game, address)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.failure = first_of(error)
            signal.raise_signal(signal.SIGTERM)
        finally:
            await game.close()

    async def _played(self, game: Game, address: str) -> None:
        await _ready(game.box.client)
        await game.box.open()
        await game.compare(self._wish.beside)
        await _ready(game.box.client)
        self._say(f"search at {address}/play; Ctrl-C ends it")
        game.crowd.habit = self._wish.habit
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(game.look())
            if self._wish.simulate is not None:
                await game.simulate(self._wish.simulate)
                self.outcome = game.board.tally.outcome()
                self._say(_summary(self.outcome))
                if self._wish.ends:
                    signal.raise_signal(signal.SIGTERM)


async def _ready(client: AsyncClient) -> None:
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
