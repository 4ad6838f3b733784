"""What is asked of the service, beside plain arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

Mode = Literal["learn", "exploit", "shadow"]
Chance = Literal["machine", "seeded"]
Span = Literal["minutes", "hours"]


class Document(TypedDict):
    """A candidate: features in order, or by name where the model has named them; `prior` is its score of today."""

    id: str
    features: Sequence[float] | Mapping[str, float] | np.ndarray
    prior: NotRequired[float | None]


Documents = Sequence[Document] | Sequence[Mapping[str, Any]]


class Feature(TypedDict):
    """A named feature: x becomes (x - shift) / scale, and a document that lacks it gets `missing` instead."""

    name: str
    shift: NotRequired[float]
    scale: NotRequired[float]
    missing: NotRequired[float | None]


class Exploration(TypedDict, total=False):
    """How far exploration may go: protected top places, places a document may move, share of lists that explore."""

    protected: int
    displacement: int | None
    share: float


@dataclass(frozen=True)
class RankRequest:
    """One of several lists that are asked for at once; its words are those of `rank`."""

    documents: Documents
    query: str | None = None
    top: int | None = None
    mode: Mode = "learn"
    source: str | None = None
    draw: int | None = None


@dataclass(frozen=True)
class Clicks:
    """The clicks on one of several lists; its words are those of `feedback`."""

    impression: str
    clicks: Sequence[str]
    final: bool = True


def said(**words: Any) -> dict[str, Any]:
    """Return the words that say something: what is None is left to the service."""
    return {name: value for name, value in words.items() if value is not None}
