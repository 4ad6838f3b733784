"""Nothing acknowledged is lost, and nothing counts twice, whatever is killed whenever."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.clicking import Say, Tally, User, tally
from helpers.database import Database
from helpers.serving import Serving, all_ended, children

NETWORK: dict[str, Any] = {"n_features": 5, "ranker": "p2neurrank", "settings": {"widths": [16, 16]}, "places": 4}
BETWEEN_CHECKS = 10  # kills


@pytest.fixture(autouse=True)
def all_end() -> Iterator[None]:
    with all_ended():
        yield


def n_answers(users: Sequence[User]) -> int:
    return sum(user.answers.total() for user in users)


def checked(log: str, users: Sequence[User], killed: Counter[str], say: Say) -> Tally:
    """Return the tally, which must be whole; no user was told anything but that its feedback is recorded or known."""
    assert [surprise for user in users for surprise in user.surprises] == []
    assert {status for user in users for status in user.answers} <= {"recorded", "known"}
    found = tally(log, users)
    say(f"killed {dict(killed)}: {found}")
    assert found.is_whole, found
    return found


@pytest.mark.kill
@pytest.mark.long
def test_nothing_acknowledged_is_lost_when_the_tree_is_killed(tmp_path: Path, is_long: bool, say: Say) -> None:
    n_kills, log = 100 if is_long else 2, f"sqlite:///{tmp_path}/perturank.db"
    chance, killed = random.Random(1), Counter[str]()
    serving = Serving(tmp_path)
    with serving.client(retries=30) as client:
        client.put_model("m", **NETWORK)
    users = [User(serving.url) for _ in range(3)]
    for user in users:
        user.start()
    while killed.total() < n_kills:
        before = n_answers(users)
        if chance.random() < 0.9:  # else it is killed while it starts
            serving.until(lambda: n_answers(users) > before)  # noqa: B023
        time.sleep(chance.uniform(0, 2))
        serving.kill()
        killed["tree"] += 1
        if killed.total() % BETWEEN_CHECKS == 0:
            checked(log, users, killed, say)
        serving = Serving(tmp_path)
        for user in users:
            user.url = serving.url
    before = n_answers(users)
    serving.until(lambda: n_answers(users) > before)
    for user in users:
        user.end()
    assert serving.stop() == 0
    assert checked(log, users, killed, say).acknowledged >= len(users)


def kill_one(what: str, trees: list[Serving], database: Database, chance: random.Random) -> None:
    """Kill a server, a learner or the database, and start again what does not start by itself."""
    n = chance.randrange(len(trees))
    if what == "server":
        os.kill(trees[n].process.pid, signal.SIGKILL)  # its learner ends with it
        trees[n].process.wait()
        trees[n] = Serving(trees[n].folder, trees[n].log)
    elif what == "learner":
        for child in children(trees[n].process.pid):
            os.kill(child, signal.SIGKILL)
    else:
        database.kill()
        time.sleep(chance.uniform(0, 1))
        database.start()


@pytest.mark.kill
@pytest.mark.long
def test_nothing_is_lost_on_postgres_whatever_is_killed(
    tmp_path: Path, database: Database, is_long: bool, say: Say
) -> None:
    n_kills, log = 30 if is_long else 3, database.fresh()
    chance, killed, users = random.Random(1), Counter[str](), list[User]()
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    while killed.total() < n_kills:
        trees = [Serving(folder, log) for folder in folders]
        with trees[0].client(retries=30) as client:
            client.put_model("m", **NETWORK)
        now = [User(tree.url) for tree in [*trees, trees[0]]]
        for user in now:
            user.start()
        users += now
        for n in range(min(BETWEEN_CHECKS, n_kills - killed.total())):
            before = [user.answers.total() for user in now]
            trees[0].until(lambda: all(user.answers.total() > n for user, n in zip(now, before, strict=True)))  # noqa: B023
            time.sleep(chance.uniform(0, 2))
            what = (
                ("server", "learner", "database")[n]
                if not is_long
                else chance.choice(["server", "learner", "database"])
            )
            kill_one(what, trees, database, chance)
            killed[what] += 1
            for user, tree in zip(now, [*trees, trees[0]], strict=True):
                user.url = tree.url
        before = [user.answers.total() for user in now]
        trees[1].until(lambda: all(user.answers.total() > n for user, n in zip(now, before, strict=True)))  # noqa: B023
        with trees[1].client(retries=30) as client:  # whoever led, somebody learns
            version = client.model("m")["version"]
            trees[1].until(lambda: client.model("m")["version"] > version)  # noqa: B023
        for user in now:
            user.end()
        assert [tree.stop() for tree in trees] == [0, 0]
        checked(log, users, killed, say)
