"""Answers: structs for lists and clicks, dictionaries for the rest, which the client returns as they are."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec

from .specification import ShownMode

Status = Literal["recorded", "known", "early", "late"]
UbiStatus = Literal["recorded", "known", "early", "late", "ignored", "listed", "unlisted"]


class Ranked(msgspec.Struct, frozen=True):
    """A document in its place; certain: it alone was free to stand there. A floor may put others there."""

    id: str
    certain: bool


class Skipped(msgspec.Struct, frozen=True):
    """A document that could not be read, and why."""

    id: str
    title: str


class RankedList(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list to show. Send `impression` back with the clicks.

    `fallback`: it is the caller's own order, since the program that would draw it is still being compiled.
    `skipped` are documents that could not be read, where the request lets them be skipped.
    """

    impression: str
    ranking: list[Ranked]
    propensity: float | None
    version: int
    fallback: bool = False
    skipped: list[Skipped] = []


class RankedLists(msgspec.Struct, frozen=True):
    """Answers in the order of the requests."""

    answers: list[RankedList]


class Given(msgspec.Struct, frozen=True):
    """What the feedback did."""

    status: Status


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was wrong and what to do (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = ""
    instance: str = ""


class Outcome(TypedDict):
    """What one piece of feedback of several did; where it was refused, its HTTP status and why."""

    status: Status | int
    type: NotRequired[str]
    title: NotRequired[str]


class GivenBatch(TypedDict):
    """What each piece of feedback did, or why it was refused."""

    answers: list[Outcome]


class UbiOutcome(TypedDict):
    """What one UBI record did; `title` says why it was refused (`status` is then an HTTP status) or is of no use."""

    status: UbiStatus | int
    type: NotRequired[str]
    title: NotRequired[str]


class UbiAnswer(TypedDict):
    """What each UBI record did, in the order of the records."""

    answers: list[UbiOutcome]


SpecOfModel = Annotated[dict[str, Any], msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/SpecRecord"})]


class Unlearning(TypedDict):
    """A source is being unlearned: the position of the request, and how many impressions were learned anew since."""

    position: int
    learned: int


class Described(TypedDict):
    """A model: what is served, what is pinned, since which position of the log it learns, whether it unlearns."""

    model: str
    version: int
    learned: int
    pinned: int | None
    generation: int
    spec: SpecOfModel
    unlearning: Unlearning | None


class Models(TypedDict):
    """All models, by name."""

    models: list[Described]


class Version(TypedDict):
    """A version: impressions learned, when it came (milliseconds since 1970); one that is stored can be pinned."""

    version: int
    learned: int
    at: int
    digest: str
    stored: bool


class Versions(TypedDict):
    """A model's versions, newest first: as many as were asked for, or all that are left."""

    served: int
    pinned: int | None
    versions: list[Version]


class Generation(TypedDict):
    """A generation: since when it learned (milliseconds since 1970), how many versions it has, and the last of them.

    `refusal` says why it cannot be restored.
    """

    generation: int
    since: int
    spec: SpecOfModel
    versions: int
    version: int | None
    learned: int
    restorable: bool
    refusal: str | None


class Generations(TypedDict):
    """A model's generations, newest first; `present` is the one that learns."""

    present: int
    generations: list[Generation]


class Accepted(TypedDict):
    """The learner will do it."""

    status: Literal["accepted"]


class Erasing(Accepted):
    """The learner will do it; `position` is that of the wish in the log."""

    position: int


class Place(TypedDict):
    """A document in its place: certain orders where the ranker knows them; `explored` of logged lists, if known."""

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
    mode: ShownMode
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
    """Whether every list is drawn by its model, and what is wrong; `to_compile`: lengths of lists that are not yet."""

    status: Literal["ready", "compiling", "failing"]
    to_compile: int
    faults: list[str]
