"""The game in front of the real application, in this process: what runs beside the page, and how it ends."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from helpers.play_small import DOCUMENTS

from perturank import AsyncClient
from perturank.errors import BadInput
from perturank.play import simulated_users
from perturank.play.game import Game
from perturank.play.search_box import LEARNING, Library, SearchBox
from perturank.play.server import PlayServer, PlaySettings
from perturank.play.simulated_users import Habit, KnownItemSearch
from perturank.service.http.app import application
from perturank.service.learner.learner import Learner
from perturank.service.log.sqlite import SqliteLog
from perturank.service.serving.service import Service
from perturank.service.settings import ServeSettings

QUERY = "join pathname components"
QUICK = Habit(rate=1000.0)
BEYOND = 2
SMALL = {"widths": [4], "budget": 32, "examined_beyond": BEYOND}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    log = SqliteLog(tmp_path / "log.db")
    made = Service(log, ServeSettings(max_documents=16, compile_first=False))
    yield made
    made.close()
    log.close()


@pytest.fixture
def play(service: Service, library: Library) -> Callable[[Callable[[Game], Awaitable[None]]], None]:
    """Return what plays a game in an event loop of its own, with everything ended afterwards."""

    def play(moves: Callable[[Game], Awaitable[None]]) -> None:
        async def whole() -> None:
            client = AsyncClient("http://127.0.0.1", transport=httpx.ASGITransport(application(service)))
            game = Game(SearchBox(library, client, 1, SMALL), 1)
            await game.box.open()
            game.crowd.habit = QUICK
            await moves(game)
            await game.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(whole())

    return play


Play = Callable[[Callable[[Game], Awaitable[None]]], None]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


def test_switching_the_crowd_off_ends_the_simulation_and_nothing_else(play: Play) -> None:
    async def moves(game: Game) -> None:
        work = asyncio.create_task(game.simulate(10**9))
        await until(lambda: game.board.tally.searches > 0)
        game.set_users(False, QUICK)
        assert not game.state()["simulating"]
        await work
        assert not work.cancelled()
        game.set_users(False, QUICK)  # nobody is there to be stopped

    play(moves)


def test_the_command_goes_on_when_its_simulation_is_switched_off(
    play: Play, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr("signal.raise_signal", told.append)

    async def moves(game: Game) -> None:
        settings = PlaySettings(simulate=10**9, habit=QUICK, beside=None, seed=1, port=0, ends=False, settings={})
        work = asyncio.create_task(PlayServer(DOCUMENTS, settings, told.append).play(game, "http://here"))
        await until(lambda: game.board.tally.searches > 0)
        game.set_users(False, QUICK)
        await until(lambda: len(told) == 2)
        assert "search at http://here/play" in str(told[0])
        assert "known-item searches, mean reciprocal rank" in str(told[1])
        Learner(service.log).step()
        service.refresh()
        await until(lambda: game.board.version == 1)  # it is still looked after
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    play(moves)


def test_the_command_exits_when_its_simulation_is_switched_off(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr("signal.raise_signal", told.append)

    async def moves(game: Game) -> None:
        settings = PlaySettings(simulate=10**9, habit=QUICK, beside=None, seed=1, port=0, ends=True, settings={})
        server = PlayServer(DOCUMENTS, settings, told.append)
        work = asyncio.create_task(server.play(game, "http://here"))
        await until(lambda: game.board.simulating)
        game.set_users(False, QUICK)
        await until(lambda: signal.SIGTERM in told)
        assert server.outcome is not None
        assert "no known-item searches" in str(told[1])
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    play(moves)


def test_whoever_ends_the_work_ends_the_crowd(play: Play) -> None:
    async def moves(game: Game) -> None:
        work = asyncio.create_task(game.simulate(10**9))
        await until(lambda: game.board.tally.searches > 0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert not game.board.simulating
        await game.simulate(3)
        assert game.board.left is None

    play(moves)


def test_a_crowd_can_be_switched_off_and_on_at_once_while_searches_are_dealt(play: Play) -> None:
    async def moves(game: Game) -> None:
        def slowly() -> Iterator[KnownItemSearch]:
            for words in itertools.repeat(QUERY):
                time.sleep(0.05)
                yield KnownItemSearch(words, 0)

        game.crowd.searches = slowly()
        game.set_users(True, QUICK)
        await asyncio.sleep(0.02)  # the first search is being dealt, in a thread
        game.set_users(False, QUICK)
        game.set_users(True, QUICK)
        assert game.board.simulating
        await until(lambda: game.board.tally.searches > 1)
        assert game.board.faults == {}

    play(moves)


def test_a_crowd_that_fails_says_so(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def moves(game: Game) -> None:
        await game.box.client.delete_model(LEARNING)
        game.set_users(True, QUICK)
        await until(lambda: not game.board.simulating)
        (fault,) = game.state()["faults"]
        assert "the simulated users have stopped: there is no model 'library'" in fault
        assert "the simulated users have stopped" in caplog.text
        with pytest.raises(BadInput, match="there is no model 'library'"):
            await game.simulate(5)
        await game.box.open()
        await game.simulate(5)
        assert game.state()["faults"] == []

    play(moves)


def test_a_crowd_does_not_wait_for_ever_for_a_learner_that_is_gone(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_users, "MOST_BEHIND", 1)
    monkeypatch.setattr(simulated_users, "LOOK_EVERY", 1)
    monkeypatch.setattr(simulated_users, "SECONDS_TO_LEARN", 0.1)

    async def moves(game: Game) -> None:
        game.crowd.habit = Habit()
        with pytest.raises(BaseExceptionGroup) as several:
            await game.simulate(10**9)
        assert several.group_contains(BadInput, match="is a learner at work")

    play(moves)


def test_a_rate_that_has_changed_holds_at_once(play: Play) -> None:
    async def moves(game: Game) -> None:
        game.set_users(True, Habit(rate=0.001))
        await until(lambda: game.board.tally.searches == simulated_users.AT_ONCE)
        game.set_users(True, QUICK)
        await until(lambda: game.board.tally.searches > 2 * simulated_users.AT_ONCE)

    play(moves)


def test_lessons_follow_the_models_own_settings(play: Play) -> None:
    async def moves(game: Game) -> None:
        found = await game.search(QUERY)
        first, *others = [each["path"] for each in found["lists"][0]["results"]]
        said = await game.click(found["search"], LEARNING, first)
        assert said["lessons"] == [[first, other] for other in others[:BEYOND]]

    play(moves)


def test_a_persons_click_is_in_every_curve_that_it_says_something_about(play: Play) -> None:
    async def moves(game: Game) -> None:
        found = await game.search(QUERY)
        before = await game.box.standing(game.box.library.question(QUERY))
        await game.click(found["search"], LEARNING, found["lists"][0]["results"][1]["path"])
        curves = game.state()["curves"]
        assert (curves["clicked place"], curves["reciprocal clicked place"]) == ([2.0], [0.5])
        assert curves["uncertain"] == [pytest.approx(before.uncertain, abs=1e-4)]

    play(moves)


def test_a_second_document_of_a_list_may_be_clicked(play: Play) -> None:
    async def moves(game: Game) -> None:
        found = await game.search(QUERY)
        first, second, *_ = [each["path"] for each in found["lists"][0]["results"]]
        assert (await game.click(found["search"], LEARNING, first))["status"] == "recorded"
        assert (await game.click(found["search"], LEARNING, first))["status"] == "known"
        assert (await game.click(found["search"], LEARNING, second))["status"] == "recorded"

    play(moves)


def test_an_effect_that_cannot_be_seen_is_said(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def moves(game: Game) -> None:
        found = await game.search(QUERY)
        await game.click(found["search"], LEARNING, found["lists"][0]["results"][0]["path"])
        await game.box.client.delete_model(LEARNING)
        await until(lambda: bool(game.board.faults))
        assert "what the last click did is not known: there is no model" in game.state()["faults"][0]
        assert "what the last click did is not known" in caplog.text

    play(moves)


def test_a_click_that_is_not_learned_is_said(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perturank.play.game.SECONDS_TO_LEARN", 0.1)

    async def moves(game: Game) -> None:
        found = await game.search(QUERY)
        await game.click(found["search"], LEARNING, found["lists"][0]["results"][0]["path"])
        await until(lambda: bool(game.board.faults))
        assert game.state()["faults"] == [
            "what the last click did is not known: it was not learned in 0.1 s; is a learner at work?"
        ]

    play(moves)


def test_another_ranker_beside_begins_without_the_numbers_of_the_last_one(play: Play) -> None:
    async def moves(game: Game) -> None:
        await game.compare("random")
        await game.simulate(60)
        assert game.state()["success"]["beside"] is not None
        assert any(value is not None for value in game.state()["curves"]["beside"])
        await game.compare("dbgd-linear")
        assert game.state()["success"]["beside"] is None
        assert all(value is None for value in game.state()["curves"]["beside"])

    play(moves)
