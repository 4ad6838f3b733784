"""Lists and feedback as the callers of a client see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..wire.answers import RankedList, Skipped
from ..wire.requests import Document, Event, OnError
from ..wire.specification import Mode

# A dictionary has the fields of a Document; its features may also be a NumPy array.
Documents = Sequence[Document] | Sequence[Mapping[str, Any]]
Events = Sequence[Event] | Sequence[Mapping[str, Any]]  # a dictionary has the fields of an Event


@dataclass(frozen=True)
class RankRequest:
    """One of several lists that are asked for at once; its fields are those of `rank`."""

    documents: Documents
    query: str | None = None
    top: int | None = None
    mode: Mode = "learn"
    source: str | None = None
    draw: int | None = None
    continues: str | None = None
    on_error: OnError = "refuse"
    query_id: str | None = None


@dataclass(frozen=True)
class FeedbackRequest:
    """What somebody did with one of several lists; its fields are those of `feedback`."""

    impression: str
    clicks: Sequence[str] = ()
    events: Events = ()
    seen: int | None = None
    final: bool = False


@dataclass(frozen=True)
class ShownList:
    """A list to show, best first; send `impression` back with the clicks."""

    impression: str
    ids: list[str]
    certain: list[bool]
    propensity: float | None
    version: int
    fallback: bool = False  # the caller's own order: the model's program is still being compiled
    skipped: list[Skipped] = field(default_factory=list)  # documents that could not be read

    @classmethod
    def of(cls, answer: Any) -> ShownList:
        """Return the list that an answer holds."""
        found = msgspec.convert(answer, RankedList)
        ids, certain = [each.id for each in found.ranking], [each.certain for each in found.ranking]
        return cls(found.impression, ids, certain, found.propensity, found.version, found.fallback, found.skipped)
