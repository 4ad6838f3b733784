"""What the service answers: plain values, with their types. What it says beyond them is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from perturank.client.requests import Mode

Status = Literal["recorded", "known", "early", "late"]


@dataclass(frozen=True)
class ShownList:
    """A list to show, best first; send `impression` back with the clicks."""

    impression: str
    ids: list[str]
    certain: list[bool]
    propensity: float | None
    version: int

    @classmethod
    def of(cls, answer: Any) -> ShownList:
        """Return the list that an answer holds."""
        ids, certain = [each["id"] for each in answer["ranking"]], [each["certain"] for each in answer["ranking"]]
        return cls(answer["impression"], ids, certain, answer["propensity"], answer["version"])


class Outcome(TypedDict):
    """What one piece of feedback of several did; where it was refused, its HTTP status and why."""

    status: Status | int
    type: NotRequired[str]
    title: NotRequired[str]


class Described(TypedDict):
    """A model: what is served, what is pinned, since which position of the log it learns."""

    model: str
    version: int
    learned: int
    pinned: int | None
    generation: int
    spec: dict[str, Any]


class Models(TypedDict):
    """All models, by name."""

    models: list[Described]


class Version(TypedDict):
    """A version: how many impressions it has learned, when (milliseconds since 1970), and whether it is stored."""

    version: int
    learned: int
    at: int
    digest: str
    stored: bool


class Versions(TypedDict):
    """A model's versions, newest first."""

    served: int
    pinned: int | None
    versions: list[Version]


class Accepted(TypedDict):
    """The learner will do it."""

    status: Literal["accepted"]


class Erasing(Accepted):
    """The learner will do it; `position` is that of the wish in the log."""

    position: int


class Place(TypedDict):
    """A document in its place; what is certain where the ranker knows that, `explored` in a logged list."""

    id: str
    score: float
    scores: list[float]
    certainly_after: NotRequired[list[str]]
    free: NotRequired[list[str]]
    certain: NotRequired[bool]
    explored: NotRequired[bool | None]


class Node(TypedDict):
    """A document in the graph of certain orders: its layer, and which nodes stand certainly and directly before it."""

    id: str
    layer: int
    after: list[int]


class Standing(TypedDict):
    """How often a document stands at each place."""

    id: str
    places: list[int]


class Draws(TypedDict):
    """Lists that were drawn to see what chance would show."""

    lists: int
    different: int
    documents: list[Standing]


class Shown(TypedDict):
    """A logged list: when it was shown (milliseconds since 1970), and by which version."""

    impression: str
    at: int
    version: int
    mode: Mode
    propensity: float | None


class Explained(TypedDict):
    """Why documents stand where they do; where there are certain orders, their graph (of the best 60) and share."""

    model: str
    version: int
    ranking: list[Place]
    documents: int
    graph: list[Node] | None
    certain_pairs: float | None
    draws: Draws | None
    shown: NotRequired[Shown]


class Alive(TypedDict):
    """The process answers."""

    status: Literal["alive"]


class Readiness(TypedDict):
    """Whether every list is answered at once, and what is wrong."""

    status: Literal["ready", "compiling", "failing"]
    to_compile: int
    faults: list[str]
