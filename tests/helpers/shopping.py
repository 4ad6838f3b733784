"""Customers of a running service: two pages of a list, clicks, a purchase a while later; and what the log must hold.

Some of them shop with a browser whose page sends UBI records: these name a list by its query_id, come before the list
is there, twice, or when its window has closed.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from helpers.clicking import User, exported
from helpers.service_small import PLACES, rows
from helpers.serving import run
from perturank import Client
from perturank.client import ServiceProblem, ShownList
from perturank.service.log import open_log
from perturank.service.log.records import own_id, sign_id

NAMES = ["price", "rating", "stock", "sales", "age"]
EXTRA = "extra"  # a feature that comes and goes
SHOP: dict[str, Any] = {
    "n_features": len(NAMES),
    "features": [{"name": name} for name in NAMES],
    "ranker": "p2neurrank",
    "settings": {"widths": [16, 16]},
    "places": PLACES,
    "settle": 0.3,
    "window": 5.0,
}
MOST_LISTS = 8  # of a query_id: two pages, each asked for again after kills
Step = Callable[[Client], Any]
EventOf = tuple[str, str, str]  # a list (its impression or query_id), a document, an action


def change_features(client: Client, with_extra: bool) -> None:
    """Add the extra feature, or drop it."""
    names = [*NAMES, EXTRA] if with_extra else NAMES
    client.patch_model("m", {"features": [{"name": name} for name in names]})


def products() -> list[dict[str, Any]]:
    """Return six documents of different scales, some with the extra feature and some without a price."""
    scale, offset = [50.0, 1.0, 1000.0, 0.01, 1.0], random.random()
    found = []
    for i, row in enumerate(rows(6)):
        features = {name: offset + s * float(x) for name, s, x in zip(NAMES, scale, row, strict=True)}
        if random.random() < 0.2:
            del features["price"]
        if random.random() < 0.2:
            features[EXTRA] = random.random()
        found.append({"id": f"d{i}", "features": features})
    return found


def past_visits(n: int) -> list[dict[str, Any]]:
    """Return n lists of two pages that another system has shown, as lines of a file."""
    found = []
    for number in range(n):
        documents = products()
        for each in documents:
            each["features"].pop(EXTRA, None)
        bought = random.choice(documents)["id"]
        events = [{"id": bought, "action": "purchase"}] if number % 3 == 0 else []
        found.append({"query_id": f"old-{number}", "documents": documents, "clicks": [bought], "events": events})
    return found


class Customer(User):
    """Makes one visit after another; what got no answer is asked or said again. Every other one is by browser."""

    def __init__(self, url: str, imported: Sequence[str] = ()) -> None:
        super().__init__(url)
        self.imported = imported  # query_ids of lists that are imported meanwhile; each shows these products
        self.said: dict[EventOf, str] = {}  # and what was answered
        self.statuses: Counter[str] = Counter()  # of UBI records
        self.queries: list[str] = []  # the query_ids of all lists
        self._earlier: deque[tuple[float, str, str]] = deque()  # when a list was shown, and what was clicked
        self._visit: Generator[Step, Any, None] | None = None
        self._step: Step | None = None

    def turn(self, client: Client) -> None:
        """Take the next step of a visit, or the same one again after a failure."""
        if self._visit is None or self._step is None:
            self._visit = random.choice([self.visit, self.browse])()
            self._step = next(self._visit)
        try:
            answer = self._step(client)
        except ServiceProblem as problem:
            if repr(EXTRA) not in problem.title:
                raise
            self._visit = None  # the feature was dropped meanwhile
            return
        try:
            self._step = self._visit.send(answer)
        except StopIteration:
            self._visit = None

    def visit(self) -> Generator[Step, Any, None]:
        """Yield the steps of a visit."""
        documents = products()
        first: ShownList = yield lambda client: client.rank(documents, model="m")
        clicked = random.choice(first.ids)
        yield self._says(first, [(clicked, "click")], seen=random.choice([None, len(first.ids)]))
        if random.random() < 0.5:
            second: ShownList = yield lambda client: client.rank(documents, model="m", continues=first.impression)
            assert not set(second.ids) & set(first.ids)
            yield self._says(second, [(random.choice(second.ids), "click")], final=True)
        if random.random() < 0.5:
            yield self._says(first, [(clicked, "add_to_cart"), (clicked, "purchase")])
        if random.random() < 0.1:
            yield lambda client: client.rank(documents, model="m", mode="shadow")  # which nobody looks at

    def browse(self) -> Generator[Step, Any, None]:
        """Yield the steps of a visit with a browser: the shop asks for the list, and the page sends what was done."""
        documents, query = products(), str(uuid.uuid4())
        self.queries.append(query)
        if random.random() < 0.3:
            yield self._sends(query, [(documents[0]["id"], "click_through")])  # before there is a list
        yield lambda client: client.ubi_queries([{"application": "m", "query_id": query, "user_query": "shoes"}])
        first: ShownList = yield lambda client: client.rank(documents, model="m", query_id=query)
        clicked = random.choice(first.ids)
        yield self._sends(query, [(clicked, "impression"), (clicked, "click"), (clicked, "click_through")])
        if random.random() < 0.3:
            second: ShownList = yield lambda client: client.rank(
                documents, model="m", query_id=query, continues=first.impression
            )
            yield self._sends(query, [(random.choice(second.ids), "click"), (clicked, "add_to_cart")])
        if random.random() < 0.3:
            yield self._sends(query, [(clicked, "click")])  # again
        self._earlier.append((time.monotonic(), query, clicked))
        if time.monotonic() - self._earlier[0][0] > 2 * SHOP["window"]:
            _, before, bought = self._earlier.popleft()
            yield self._sends(before, [(bought, "purchase")])  # when the window has closed
        if self.imported and random.random() < 0.1:
            yield self._sends(random.choice(self.imported), [(random.choice(documents[:PLACES])["id"], "click")])

    def _sends(self, query: str, done: Sequence[tuple[str, str]]) -> Step:
        about = {"application": "m", "query_id": query, "client_id": query, "session_id": query}
        records = [
            about | {"action_name": action, "event_attributes": {"object": {"object_id": document}}}
            for document, action in done
        ]

        def send(client: Client) -> None:
            for (document, name), outcome in zip(done, client.ubi_events(records), strict=True):
                status = str(outcome["status"])
                self.statuses[status] += 1
                action = "click" if name == "click_through" else name
                if action != "impression":  # which says how far somebody has looked
                    self.said.setdefault((query, document, action), status)
            self.answers["ubi"] += 1

        return send

    def _says(self, shown: ShownList, done: Sequence[tuple[str, str]], **more: Any) -> Step:
        events = [{"id": document, "action": action} for document, action in done]

        def say(client: Client) -> None:
            status = client.feedback(shown.impression, events=events, model="m", **more)
            self.answers[status] += 1
            self.said |= {(shown.impression, document, action): status for document, action in done}

        return say


@dataclass(frozen=True)
class Books:
    """What became of all events: acknowledged, in the log, learned."""

    acknowledged: int
    ubi: dict[str, int]  # records by what was answered
    late: int
    lost: int
    duplicated: int
    complete: int
    learned: int
    pages: int
    imported: int  # lists; their pages count once
    scales: int
    changes: int
    versions: int
    records: list[dict[str, Any]] = field(repr=False)

    @property
    def balance(self) -> bool:
        """Whether everything acknowledged is in the log once, and everything complete was learned once."""
        return self.lost == self.duplicated == 0 and self.learned == self.complete


def close_books(log: str, customers: Sequence[Customer], imported: Collection[str] = ()) -> Books:
    """Learn what is left, verify log and model, and return what became of the customers' events.

    `imported` are the query_ids of lists that were imported, or may have been.
    """
    said = {event for customer in customers for event in list(customer.said)}
    for command in (("learn", "--once"), ("log", "verify")):
        done = run(*command, "--log", log)
        assert done.returncode == 0, done.stdout + done.stderr
    replayed = run("replay", "--log", log, "--model", "m", "--verify")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    records, kinds = exported(log), list[str]()
    of_query = queries_of(log, [*imported, *(query for each in customers for query in list(each.queries))])
    kept: dict[EventOf, list[str]] = {}
    for each in records:
        kinds.append(each["kind"])
        for event in events_of(each):
            kept.setdefault((of_query.get(each["impression"], each["impression"]), *event), []).append(each["effect"])
    lost = [event for event in said if event not in kept]
    shown = [each for each in records if each["kind"] == "impression"]
    return Books(
        acknowledged=len(said),
        ubi=dict(sum((each.statuses for each in customers), Counter[str]())),
        late=sum(effects == ["late"] for effects in kept.values()),
        lost=len(lost),
        duplicated=sum(len(effects) > 1 for effects in kept.values()),
        complete=n_complete(records),
        learned=json.loads(replayed.stdout)["learned"],
        pages=sum("continues" in each for each in records),
        imported=len({of_query[each["impression"]] for each in shown if each["mode"] == "imported"}),
        scales=kinds.count("scaled"),
        changes=kinds.count("changed"),
        versions=kinds.count("snapshot"),
        records=records,
    )


def queries_of(log: str, queries: Iterable[str]) -> dict[str, str]:
    """Return the query_id of each impression that has its name from one of these."""
    with closing(open_log(log)) as opened:
        secret = opened.secret
    return {sign_id(own_id(each, "m", secret, n), "m", secret): each for each in queries for n in range(MOST_LISTS)}


def events_of(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a record says that somebody did: documents and actions."""
    if record["kind"] != "feedback":
        return []
    others = [(event["id"], event["action"]) for event in record["events"]]
    return [*((document, "click") for document in record["clicks"]), *others]


@dataclass
class Story:
    """What the log has told of an impression so far."""

    position: int  # of the list, or of what was said before there was one
    mode: str | None = None  # None: there is no list yet
    heard: set[Any] = field(default_factory=set)
    complete: set[Any] | None = None
    is_settled: bool = False  # before there was a list

    def n_completed(self) -> int:
        """Return 1 if it is complete now with something new, else 0."""
        self.is_settled = self.mode is None
        if self.mode is None or self.complete == self.heard:
            return 0
        self.complete = set(self.heard)
        return 1


def n_complete(records: Sequence[dict[str, Any]]) -> int:
    """Return how often an impression was complete with something new, as the documentation of the log has it."""
    open_now: dict[str, Story] = {}
    n = 0
    for each in records:
        position, name = each["position"], each.get("impression", "")
        match each["kind"]:
            case "impression":
                story = open_now.setdefault(name, Story(position))
                story.position, story.mode = position, each["mode"]
                n += story.n_completed() if story.is_settled and story.mode != "imported" else 0
            case "feedback" if each["effect"] == "early" or (each["effect"] == "counted" and name in open_now):
                story = open_now.setdefault(name, Story(position))
                story.heard |= {*events_of(each), *([each["seen"]] if each["seen"] else [])}
                n += story.n_completed() if each["final"] else 0
                if each["final"] and story.mode == "imported":
                    del open_now[name]
            case "settled":
                n += sum(open_now[name].n_completed() for name in each["impressions"] if name in open_now)
            case "closed":
                over = [name for name, story in open_now.items() if story.position <= each["through"]]
                n += sum(open_now.pop(name).n_completed() for name in over)
    return n
