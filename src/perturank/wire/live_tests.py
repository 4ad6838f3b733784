"""Live tests: their specification as a request states it and as the log holds it, and the answers about them."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import msgspec

from .requests import Strict
from .specification import LONGEST_WINDOW, Actions

OWN = "own"  # the arm that shows the caller's own order
MOST_ARMS = 5

Method = Literal["interleave", "split"]
Learns = Literal["own", "all", "none"]
Arm = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(@[1-9][0-9]{0,14})?$", max_length=80)]
Level = Annotated[float, msgspec.Meta(gt=0, le=0.5)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=LONGEST_WINDOW)]


class LiveTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A live test. The first arm is the one of today, which the winner replaces when it is promoted.

    An arm is a model (`books`), a version of it (`books@7`), or `own`: the caller's own order. `interleave` makes one
    list of all arms' lists; `split` shows each `source` the lists of one arm. Models learn from what their own
    documents earned, from all that is shown, or not at all. `actions` and `window` are by default those of the first
    model; `level` is how often a test of equal arms may be decided wrongly.
    """

    arms: Annotated[tuple[Arm, ...], msgspec.Meta(min_length=2, max_length=MOST_ARMS)]
    method: Method = "interleave"
    learns: Learns = "own"
    actions: Actions = {}
    window: Seconds | None = None
    level: Level = 0.05


class Promote(Strict, frozen=True):
    """The arm to promote; by default the winner, which there must be."""

    arm: Arm | None = None


class ArmStanding(TypedDict):
    """An arm: what it has earned in this period, and how it learns from the test.

    `lists` are those in which it had documents that not all arms agreed on, and `credit` is what these earned.
    `learns` says from what it learns: `own`, `all` or `none`; `reason` why not as the test says; `learned` from how
    many lists. `unlearned`: its model was asked to unlearn a source in this period, which withdrew versions that it
    was judged by.
    """

    arm: str
    model: str | None
    version: int | None
    lists: int
    credit: float
    learns: Learns
    reason: str | None
    learned: int
    unlearned: bool


class Comparison(TypedDict):
    """Two arms: by how much more a list earns with the first (`difference`), and within what this lies at any time.

    `interval` holds with probability 1 - level for all pairs and all times together; null: without end. `confidence`
    is how sure it is that there is a difference at all. `lists_more` and `seconds_more` say when the test would decide,
    if the difference and the traffic stay as they are; null: not foreseeably.
    """

    one: str
    other: str
    difference: float
    interval: list[float | None]
    confidence: float
    decided: bool
    lists_more: int | None
    seconds_more: float | None


class Point(TypedDict):
    """The comparisons at a time (milliseconds since 1970), after so many lists: in the order of `comparisons`."""

    at: int
    lists: int
    differences: list[float]
    intervals: list[list[float | None]]


class Period(TypedDict):
    """A stretch of the test in which no arm's specification was changed; `leader` has earned most in it."""

    number: int
    since: int | None
    lists: int
    leader: str | None
    winner: str | None


class LiveTestStanding(TypedDict):
    """A live test: who leads, by how much, how surely, and for how long it would go on.

    `winner` is decided: it earned more than each other arm. `lists` counted in this period, and `uncounted` did not:
    they were shown while programs were compiled, or of arms as they were before a change. `decided_at` is when there
    first was a winner, in milliseconds since 1970, and `decided_after` so many lists.
    """

    test: str
    status: Literal["running", "stopped"]
    spec: LiveTest
    promoted: str | None
    since: int
    lists: int
    uncounted: int
    lists_per_second: float | None
    leader: str | None
    winner: str | None
    decided_at: int | None
    decided_after: int | None
    arms: list[ArmStanding]
    comparisons: list[Comparison]
    series: list[Point]
    period: int
    periods: list[Period]


class LiveTests(TypedDict):
    """All live tests, by name."""

    tests: list[LiveTestStanding]


class Promoted(TypedDict):
    """What a promotion did, and how to take it back."""

    arm: str
    model: str
    did: str
    undo: str
