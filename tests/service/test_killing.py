"""Nothing acknowledged is lost, and nothing counts twice, whatever is killed whenever.

The traffic has all there is: events that settle, later events, pages, windows that close, UBI records that name a list
by its query_id, old clicks that are imported meanwhile, a scale that is being learned, and a feature that comes and
goes.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from helpers.clicking import Say
from helpers.database import Database
from helpers.past_lists import OldClicks
from helpers.serving import Serving, all_ended, children
from helpers.shopping import SHOP, Books, Customer, change_features, close_books, past_visits

BETWEEN_CHECKS = 10  # kills
IMPORTED = 40  # lists to a file
LONG = 600.0  # seconds that a new learner may take on a busy machine: it starts, catches up, compiles
STATUSES = {"recorded", "known", "early", "late", "ubi"}
BETWEEN_CHANGES = 10  # of features; each brings new programs to be compiled


@pytest.fixture(autouse=True)
def all_end() -> Iterator[None]:
    with all_ended():
        yield


def n_answers(customers: Sequence[Customer]) -> int:
    return sum(each.answers.total() for each in customers)


def send_to(url: str, customers: Sequence[Customer]) -> None:
    """Let these customers use the service at this address; empty: none."""
    for each in customers:
        each.url = url


def checked(log: str, customers: Sequence[Customer], old: OldClicks, killed: Counter[str], say: Say) -> Books:
    """Return the books, which must balance; nobody was told anything strange."""
    assert [surprise for each in customers for surprise in each.surprises] == []
    assert {status for each in customers for status in each.answers + each.statuses} <= STATUSES
    found = close_books(log, customers, old.queries)
    say(f"killed {dict(killed)}, {old.n_killed} imports: {found}")
    assert found.balance, found
    assert found.imported >= old.n_acknowledged
    return found


def check_end(books: Books, old: OldClicks) -> None:
    """See that there was something of everything."""
    assert books.changes > 1
    assert books.imported == len(old.queries)
    assert {"recorded", "known", "early"} <= books.ubi.keys()


@pytest.mark.kill
@pytest.mark.long
def test_nothing_acknowledged_is_lost_when_the_tree_is_killed(tmp_path: Path, is_long: bool, say: Say) -> None:
    n_kills, log = 100 if is_long else 2, f"sqlite:///{tmp_path}/perturank.db"
    chance, killed = random.Random(1), Counter[str]()
    serving = Serving(tmp_path)
    with serving.client(retries=30) as client:
        client.put_model("m", **SHOP)
    n_files = max(1, n_kills // 10)
    old = OldClicks(tmp_path, log, n_files, past_visits(n_files * IMPORTED))
    customers = [Customer(serving.url, old.queries) for _ in range(3)]
    for each in customers:
        each.start()
    while killed.total() < n_kills:
        before, n = n_answers(customers), killed.total()
        if chance.random() < 0.9:  # else it is killed while it starts
            serving.until(lambda: n_answers(customers) > before)  # noqa: B023
            if n % BETWEEN_CHANGES == 0:
                with serving.client(retries=30) as client:
                    change_features(client, with_extra=n % (2 * BETWEEN_CHANGES) == 0)
            old.start()
        time.sleep(chance.uniform(0, 2))
        serving.kill()
        send_to("", customers)
        killed["tree"] += 1
        if n % 3 == 0 or killed.total() % BETWEEN_CHECKS == 0:
            old.end(kill=chance.random() < 0.5)
        if killed.total() % BETWEEN_CHECKS == 0:
            checked(log, customers, old, killed, say)
        serving = Serving(tmp_path)
        send_to(serving.url, customers)
    before = n_answers(customers)
    serving.until(lambda: n_answers(customers) > before)
    for each in customers:
        each.end()
    assert serving.stop() == 0
    old.finish()
    books = checked(log, customers, old, killed, say)
    assert books.acknowledged >= len(customers)
    assert books.scales > 0
    check_end(books, old)


def kill_one(
    what: str, trees: list[Serving], customers: Sequence[Customer], database: Database, chance: random.Random
) -> None:
    """Kill a server, a learner or the database, and start again what does not start by itself."""
    n = chance.randrange(len(trees))
    if what == "server":
        os.kill(trees[n].process.pid, signal.SIGKILL)  # its learner ends with it
        trees[n].process.wait()
        mine = [each for each in customers if each.url == trees[n].url]
        send_to("", mine)
        trees[n] = Serving(trees[n].folder, trees[n].log)
        send_to(trees[n].url, mine)
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
    chance, killed, customers = random.Random(1), Counter[str](), list[Customer]()
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    n_files = max(1, n_kills // 5)
    old = OldClicks(tmp_path, log, n_files, past_visits(n_files * IMPORTED))
    while killed.total() < n_kills:
        trees = [Serving(folder, log) for folder in folders]
        with trees[0].client(retries=30) as client:
            client.put_model("m", **SHOP)
        now = [Customer(tree.url, old.queries) for tree in [*trees, trees[0]]]
        for each in now:
            each.start()
        customers += now
        for n in range(min(BETWEEN_CHECKS, n_kills - killed.total())):
            before = [each.answers.total() for each in now]
            trees[0].until(lambda: all(each.answers.total() > n for each, n in zip(now, before, strict=True)))  # noqa: B023
            if n == 0:
                with trees[1].client(retries=30) as client:
                    change_features(client, with_extra=True)
            old.start()
            time.sleep(chance.uniform(0, 2))
            what = (
                ("server", "learner", "database")[n]
                if not is_long
                else chance.choice(["server", "learner", "database"])
            )
            kill_one(what, trees, now, database, chance)
            killed[what] += 1
            if n % 3 == 0:
                old.end(kill=chance.random() < 0.5)
        before = [each.answers.total() for each in now]
        trees[1].until(lambda: all(each.answers.total() > n for each, n in zip(now, before, strict=True)))  # noqa: B023
        with trees[1].client(retries=30) as client:  # whoever led, somebody learns
            version = client.model("m")["version"]
            trees[1].until(lambda: client.model("m")["version"] > version, LONG)  # noqa: B023
        for each in now:
            each.end()
        assert [tree.stop() for tree in trees] == [0, 0]
        old.end(kill=False)
        if killed.total() == n_kills:
            old.finish()
        books = checked(log, customers, old, killed, say)
    check_end(books, old)
