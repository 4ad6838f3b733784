"""Users of a running service, who rank and click whatever happens to it, and what its log must then hold."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from helpers.service_small import rows
from helpers.serving import run
from perturank import Client
from perturank.client import ServiceProblem

DOCUMENTS = [{"id": f"d{i}", "features": row.tolist()} for i, row in enumerate(rows(6))]
NOT_NOW = (503, 507)  # said by a service that is stopping, or that cannot write
Say = Callable[[str], None]


class User(threading.Thread):
    """Asks for a list, clicks, asks again; feedback that got no answer is sent until it gets one.

    Without a `url` it waits: the port of a service that was killed may soon be that of somebody else's.
    """

    def __init__(self, url: str = "") -> None:
        super().__init__(daemon=True)
        self.url = url
        self.shown: list[str] = []
        self.acknowledged: dict[str, str] = {}
        self.answers: Counter[str] = Counter()
        self.refusals: Counter[int] = Counter()
        self.surprises: list[str] = []
        self._said: tuple[str, str, str | None] | None = None
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            url = self.url
            if not url:
                self._over.wait(0.02)
                continue
            with Client(url, retries=0, timeout=30) as client:
                while url == self.url and not self._over.is_set():
                    self._try(client)

    def _try(self, client: Client) -> None:
        try:
            self.turn(client)
        except httpx.TransportError:
            self._over.wait(0.05)
        except ServiceProblem as problem:
            self.refusals[problem.status] += 1
            if problem.status not in NOT_NOW:
                self.surprises.append(f"{problem.status} {problem}")
            self._over.wait(0.05)

    def turn(self, client: Client) -> None:
        """Ask for a list and click; after a failure, click on the same list.

        Half of the lists have a query_id, by which the same click is then sent as a UBI event: it is known.
        """
        if self._said is None:
            query_id = random.choice([None, str(uuid.uuid4())])
            shown = client.rank(DOCUMENTS, model="m", query_id=query_id)
            self.shown.append(shown.impression)
            self._said = shown.impression, random.choice(shown.ids), query_id
        name, click, query_id = self._said
        self.answers[client.feedback(name, [click], model="m", final=True)] += 1
        self.acknowledged[name] = click
        self._said = None
        if query_id is not None:
            about = {"object": {"object_id": click}}
            event = {"application": "m", "action_name": "click", "query_id": query_id, "event_attributes": about}
            (outcome,) = client.ubi_events([event])
            if outcome["status"] != "known":
                self.surprises.append(f"a click sent again was {outcome}")

    def end(self) -> None:
        """Let it finish its last request."""
        self._over.set()
        self.join(60)
        assert not self.is_alive()


@dataclass(frozen=True)
class Tally:
    """What became of all feedback: acknowledged, and in the log."""

    acknowledged: int
    logged: int
    lost: int
    duplicated: int
    learned: int
    records: list[dict[str, Any]] = field(repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether everything acknowledged is in the log once, and everything in the log was learned once."""
        return self.lost == self.duplicated == 0 and self.learned == self.logged >= self.acknowledged


def exported(log: str) -> list[dict[str, Any]]:
    """Return every record of a log."""
    return [json.loads(line) for line in run("log", "export", "--log", log).stdout.splitlines()]


def tally(log: str, users: Sequence[User]) -> Tally:
    """Learn what is left, verify log and model, and return what became of the users' feedback."""
    acknowledged = {name: click for user in users for name, click in dict(user.acknowledged).items()}
    for command in (("learn", "--once"), ("log", "verify")):
        done = run(*command, "--log", log)
        assert done.returncode == 0, done.stdout + done.stderr
    replayed = run("replay", "--log", log, "--model", "m", "--verify")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    records = exported(log)
    feedback = [each for each in records if each["kind"] == "feedback"]
    found = {each["impression"]: each["clicks"] for each in feedback}
    lost = [name for name, click in acknowledged.items() if found.get(name) != [click]]
    learned = json.loads(replayed.stdout)["learned"]
    return Tally(len(acknowledged), len(feedback), len(lost), len(feedback) - len(found), learned, records)
