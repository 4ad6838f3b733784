"""Requests: the service decodes them, the client encodes them, and the OpenAPI document describes them."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec

from .specification import MOST_PLACES, Action, Mode

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Top = Annotated[int, msgspec.Meta(ge=1, le=MOST_PLACES)]
Draw = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]  # of a model whose chance is seeded: the same gives the same list
MOST_EVENTS = 1000  # in one request
LARGEST_VALUE = 1e12
Impression = Annotated[str, msgspec.Meta(max_length=100)]
OnError = Literal["refuse", "skip"]
Version = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request: unknown fields are refused, and fields with their default value are not sent."""


class Document(Strict, frozen=True, gc=False):
    """A candidate: features as a list, or by name where the model has named them; `prior` is its score of today.

    A feature that is null is missing.
    """

    id: Id
    features: list[float | None] | dict[str, float | None]
    prior: float | None = None


class Rank(Strict, frozen=True):
    """Documents to be ranked. `source` is a client, user or session, for the limits on its influence.

    `continues` names the page before this one, whose documents are left out, and those of the pages before it.
    `on_error`: a document that cannot be read refuses the request, or is skipped. `query_id` is the caller's own name
    for the query: events of User Behavior Insights refer to it.
    """

    documents: list[Document]
    query: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    top: Top | None = None
    mode: Mode = "learn"
    source: Id | None = None
    draw: Draw | None = None
    continues: Impression | None = None
    on_error: OnError = "refuse"
    query_id: Id | None = None


class RawRank(Strict, frozen=True):
    """The binary form, as MessagePack: features and prior are raw little-endian float32, row by row."""

    ids: list[Id]
    features: bytes
    prior: bytes | None = None
    query: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    top: Top | None = None
    mode: Mode = "learn"
    source: Id | None = None
    draw: Draw | None = None
    continues: Impression | None = None
    on_error: OnError = "refuse"
    query_id: Id | None = None


class Event(Strict, frozen=True):
    """What somebody did with a shown document: one of the model's actions; `value`, such as a price, is counted."""

    id: Id
    action: Action
    value: Annotated[float, msgspec.Meta(ge=-LARGEST_VALUE, le=LARGEST_VALUE)] | None = None

    def __post_init__(self) -> None:
        """Refuse a value that is no number, which MessagePack can hold."""
        if self.value is not None and math.isnan(self.value):
            raise ValueError("the value of an event is NaN")


class ListFeedback(Strict, frozen=True):
    """What somebody did with a list: clicks, other events, how many top places were seen. Parts add up.

    Events are learned when they have settled: the model's `settle` seconds after the last one, at once if `final`.
    """

    impression: Impression
    clicks: Annotated[list[Id], msgspec.Meta(max_length=MOST_PLACES)] = []
    final: bool = False
    events: Annotated[list[Event], msgspec.Meta(max_length=MOST_EVENTS)] = []
    seen: Top | None = None


class RankBatch(Strict, frozen=True):
    """Several rank requests."""

    requests: list[Rank]


class FeedbackBatch(Strict, frozen=True):
    """Several pieces of feedback."""

    requests: list[ListFeedback]


class Pin(Strict, frozen=True):
    """A version to serve, or to go on from."""

    version: Version


class Restore(Strict, frozen=True):
    """A generation to go on from."""

    generation: Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class Erase(Strict, frozen=True):
    """The client, user or session whose impressions and clicks are to be taken out of the log.

    `unlearn`: the model is rebuilt without them, and versions that have learned from them are withdrawn.
    """

    source: Id
    unlearn: bool = False


class Explain(Strict, frozen=True):
    """Documents whose places are to be explained, or one of the last queries; `draws`: lists drawn for it."""

    documents: list[Document] = []
    recent: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    draws: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
