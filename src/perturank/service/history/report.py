"""What became of the lists of a file: how many were imported, were there already, were refused, and why."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from perturank.errors import BadInput
from perturank.service.history.importer import Fate, GivenList
from perturank.service.log import Log
from perturank.service.log.counters import LISTS, TOTAL
from perturank.service.log.records import Compacted
from perturank.service.log.refusals import Refused

MOST_EXAMPLES, MOST_REASONS = 5, 50  # refusals of one reason that are told in full, and reasons of which some are
PARTICULAR = re.compile(r"'[^']*'| \(byte \d+\)")  # ids, and where in a line


class Example(NamedTuple):
    """A list that was refused, and why."""

    where: str
    message: str


@dataclass
class ImportReport:
    """Counts of lists; with `is_dry` nothing was written, and `imported` are those that would be."""

    model: str
    is_dry: bool = False
    read: int = 0
    imported: int = 0
    known: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    examples: dict[str, list[Example]] = field(default_factory=dict)  # by reason too
    notes: list[str] = field(default_factory=list)

    def add(self, given: GivenList, fate: Fate) -> None:
        """Count a list."""
        self.read += 1
        match fate:
            case "imported":
                self.imported += 1
            case "known":
                self.known += 1
            case BadInput():
                self.refused[reason(fate)] += 1
                self.note_example(given.where, fate)

    def note_example(self, where: str, refusal: BadInput) -> None:
        """Keep a refusal in full, if there are few of its reason."""
        if len(self.examples) < MOST_REASONS:
            examples = self.examples.setdefault(reason(refusal), [])
            if len(examples) < MOST_EXAMPLES:
                examples.append(Example(where, str(refusal)))

    @property
    def n_refused(self) -> int:
        """How many lists were refused."""
        return self.refused.total()

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "model": self.model,
            "dry_run": self.is_dry,
            "read": self.read,
            "imported": self.imported,
            "already_there": self.known,
            "refused": self.n_refused,
            "refused_by_reason": dict(self.refused.most_common()),
            "examples": [each._asdict() for some in self.examples.values() for each in some],
            "notes": self.notes,
        }


def reason(refusal: BadInput) -> str:
    """Return why something was refused, without what is particular: the same for all that have the same fault."""
    what = refusal.what if isinstance(refusal, Refused) else str(refusal)
    return PARTICULAR.sub(lambda part: "…" if part[0].startswith("'") else "", what)


def deleted_lists(log: Log, model: str) -> list[str]:
    """Return a note, if retention may have deleted lists that were imported before: they are not recognised."""
    totals = [row.amounts.get(LISTS + "imported", 0) for row in log.counters((TOTAL,), model=model)]
    if not sum(totals) or not log.newest(model, Compacted, 1):
        return []
    return ["the log was compacted: imported lists that it has deleted are not recognised, and are learned again"]
