"""Customers of a running service: two pages of a list, clicks, a purchase a while later; and what the log must hold."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers.clicking import User, exported
from helpers.service_small import rows
from helpers.serving import run
from perturank import Client
from perturank.client import ServiceProblem, ShownList

NAMES = ["price", "rating", "stock", "sales", "age"]
EXTRA = "extra"  # a feature that comes and goes
SHOP: dict[str, Any] = {
    "n_features": len(NAMES),
    "features": [{"name": name} for name in NAMES],
    "ranker": "p2neurrank",
    "settings": {"widths": [16, 16]},
    "places": 4,
    "settle": 0.3,
    "window": 5.0,
}
Step = Callable[[Client], Any]


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


class Customer(User):
    """Makes one visit after another; what got no answer is asked or said again."""

    def __init__(self, url: str = "") -> None:
        super().__init__(url)
        self.said: dict[tuple[str, str, str], str] = {}  # impression, document, action: what was answered
        self._visit: Generator[Step, Any, None] | None = None
        self._step: Step | None = None

    def turn(self, client: Client) -> None:
        """Take the next step of a visit, or the same one again after a failure."""
        if self._visit is None or self._step is None:
            self._visit = self.visit()
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
    late: int
    lost: int
    duplicated: int
    complete: int
    learned: int
    pages: int
    scales: int
    changes: int
    versions: int
    records: list[dict[str, Any]] = field(repr=False)

    @property
    def balance(self) -> bool:
        """Whether everything acknowledged is in the log once, and everything complete was learned once."""
        return self.lost == self.duplicated == 0 and self.learned == self.complete


def close_books(log: str, customers: Sequence[Customer]) -> Books:
    """Learn what is left, verify log and model, and return what became of the customers' events."""
    said = {event: status for customer in customers for event, status in dict(customer.said).items()}
    for command in (("learn", "--once"), ("log", "verify")):
        done = run(*command, "--log", log)
        assert done.returncode == 0, done.stdout + done.stderr
    replayed = run("replay", "--log", log, "--model", "m", "--verify")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    records, kinds = exported(log), list[str]()
    kept: dict[tuple[str, str, str], list[str]] = {}
    for each in records:
        kinds.append(each["kind"])
        for event in events_of(each):
            kept.setdefault((each["impression"], *event), []).append(each["effect"])
    lost = [event for event, status in said.items() if status != "known" and event not in kept]
    return Books(
        acknowledged=len(said),
        late=sum(effects == ["late"] for effects in kept.values()),
        lost=len(lost),
        duplicated=sum(len(effects) > 1 for effects in kept.values()),
        complete=n_complete(records),
        learned=json.loads(replayed.stdout)["learned"],
        pages=sum("continues" in each for each in records),
        scales=kinds.count("scaled"),
        changes=kinds.count("changed"),
        versions=kinds.count("snapshot"),
        records=records,
    )


def events_of(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a record says that somebody did: documents and actions."""
    if record["kind"] != "feedback":
        return []
    others = [(event["id"], event["action"]) for event in record["events"]]
    return [*((document, "click") for document in record["clicks"]), *others]


def n_complete(records: Sequence[dict[str, Any]]) -> int:
    """Return how often an impression was complete with something new, as the documentation of the log has it."""
    heard: dict[str, set[Any]] = {}
    complete: dict[str, set[Any]] = {}
    shown: dict[str, int] = {}
    n = 0

    def completed(name: str) -> int:
        if name not in shown or complete.get(name) == heard[name]:
            return 0
        complete[name] = set(heard[name])
        return 1

    for each in records:
        match each["kind"]:
            case "impression":
                shown[each["impression"]] = each["position"]
                heard[each["impression"]] = set()
            case "feedback" if each["effect"] == "counted":
                news = {*events_of(each), *([each["seen"]] if each["seen"] else [])}
                heard[each["impression"]] |= news
                n += completed(each["impression"]) if each["final"] else 0
            case "settled":
                n += sum(map(completed, each["impressions"]))
            case "closed":
                over = [name for name, position in shown.items() if position <= each["through"]]
                n += sum(map(completed, over))
                for name in over:
                    del shown[name]
    return n
