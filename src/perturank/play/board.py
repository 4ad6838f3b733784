"""What the page shows beside the results: curves, lessons, the effect of the last click, and who is searching."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

from perturank.play.lessons import Lesson
from perturank.play.searching import Standing
from perturank.play.tally import Tally

KEPT_LESSONS = 8


@dataclass(frozen=True)
class Effect:
    """What one click did to its own query: the best estimate's list before and after it was learned."""

    query: str
    clicked: str
    over: str | None  # what stood above it, or next to it
    before: Standing
    after: Standing

    def said(self) -> dict[str, Any]:
        """Return it as JSON values."""
        lead = None if self.over is None else [each.lead(self.clicked, self.over) for each in (self.before, self.after)]
        return {
            "query": self.query,
            "clicked": self.clicked,
            "over": self.over,
            "places": [each.place(self.clicked) for each in (self.before, self.after)],
            "versions": [self.before.version, self.after.version],
            "lists": [self.before.paths, self.after.paths],
            "lead": lead,
            "uncertain": [self.before.uncertain, self.after.uncertain],
        }


@dataclass
class Board:
    """The state of the game, counted up with every change."""

    tally: Tally = field(default_factory=Tally)
    lessons: deque[Lesson] = field(default_factory=lambda: deque(maxlen=KEPT_LESSONS))
    effect: Effect | None = None
    version: int = 0
    changes: int = 0
    simulating: bool = False
    left: int | None = None  # of the searches that were asked for
    faults: dict[str, str] = field(default_factory=dict)  # what does not go on, and why

    def changed(self) -> None:
        """Let those who watch know."""
        self.changes += 1

    def learned_from(self, new: list[Lesson]) -> None:
        """Keep the newest lessons."""
        self.lessons.extendleft(new)
        self.changed()

    def said(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        curves = self.tally.curves
        return {
            "version": self.version,
            "outcome": self.tally.outcome(),
            "success": self.tally.success(),
            "searches": curves.ends(),
            "curves": curves.points(),
            "lessons": [asdict(lesson) for lesson in self.lessons],
            "effect": None if self.effect is None else self.effect.said(),
            "simulating": self.simulating,
            "left": self.left,
            "faults": [f"{what}: {why}" for what, why in self.faults.items()],
        }
