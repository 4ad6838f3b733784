"""What the service answers beside lists and feedback, as the OpenAPI document describes it."""

from __future__ import annotations

from typing import Literal

import msgspec

from perturank.service.spec import Mode, Spec


class Described(msgspec.Struct, frozen=True):
    """A model: what is served, what is pinned, since which position of the log it learns."""

    model: str
    version: int
    learned: int
    pinned: int | None
    generation: int
    spec: Spec


class Models(msgspec.Struct, frozen=True):
    """All models, by name."""

    models: list[Described]


class Version(msgspec.Struct, frozen=True):
    """A version: impressions learned, when it came (milliseconds since 1970); one that is stored can be pinned."""

    version: int
    learned: int
    at: int
    digest: str
    stored: bool


class Versions(msgspec.Struct, frozen=True):
    """A model's versions, newest first: as many as were asked for, or all that are left."""

    served: int
    pinned: int | None
    versions: list[Version]


class Accepted(msgspec.Struct, frozen=True):
    """The learner will do it."""

    status: Literal["accepted"]


class Place(msgspec.Struct, frozen=True):
    """A document in its place: certain orders where the ranker knows them; `explored` of logged lists, if known."""

    id: str
    score: float
    scores: list[float]
    certainly_after: list[str] | msgspec.UnsetType = msgspec.UNSET
    free: list[str] | msgspec.UnsetType = msgspec.UNSET
    certain: bool | msgspec.UnsetType = msgspec.UNSET
    explored: bool | msgspec.UnsetType | None = msgspec.UNSET


class Node(msgspec.Struct, frozen=True):
    """A document in the graph of certain orders: its layer, and which nodes stand certainly and directly before it."""

    id: str
    layer: int
    after: list[int]


class Standing(msgspec.Struct, frozen=True):
    """How often a document stands at each place."""

    id: str
    places: list[int]


class Draws(msgspec.Struct, frozen=True):
    """Lists that were drawn to see what chance would show."""

    lists: int
    different: int
    documents: list[Standing]


class Shown(msgspec.Struct, frozen=True):
    """A logged list: when it was shown (milliseconds since 1970), and by which version."""

    impression: str
    at: int
    version: int
    mode: Mode
    propensity: float | None


class Explained(msgspec.Struct, frozen=True):
    """Why documents stand where they do; where there are certain orders, their graph (of the best 60) and share."""

    model: str
    version: int
    ranking: list[Place]
    documents: int
    graph: list[Node] | None
    certain_pairs: float | None
    draws: Draws | None
    shown: Shown | msgspec.UnsetType = msgspec.UNSET


class Alive(msgspec.Struct, frozen=True):
    """The process answers."""

    status: Literal["alive"]


class Readiness(msgspec.Struct, frozen=True):
    """Whether every list is answered at once, and what is wrong; `to_compile`: lengths of lists that would wait."""

    status: Literal["ready", "compiling", "failing"]
    to_compile: int
    faults: list[str]
