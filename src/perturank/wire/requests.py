"""Requests: the service decodes them, the client encodes them, and the OpenAPI document describes them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from perturank.wire.specification import MOST_PLACES, Mode

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Top = Annotated[int, msgspec.Meta(ge=1, le=MOST_PLACES)]
Draw = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]  # of a model whose chance is seeded: the same gives the same list
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
    """Documents to be ranked. `source` is a client, user or session, for the cap on its influence.

    `continues` names the page before this one, whose documents are left out, and those of the pages before it.
    `on_error`: a document that cannot be read refuses the request, or is skipped.
    """

    documents: list[Document]
    query: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    top: Top | None = None
    mode: Mode = "learn"
    source: Id | None = None
    draw: Draw | None = None
    continues: Impression | None = None
    on_error: OnError = "refuse"


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


class ClickFeedback(Strict, frozen=True):
    """Clicks on an impression; parts add up until one is final or the window closes."""

    impression: Impression
    clicks: Annotated[list[Id], msgspec.Meta(max_length=MOST_PLACES)] = []
    final: bool = False


class RankBatch(Strict, frozen=True):
    """Several rank requests."""

    requests: list[Rank]


class FeedbackBatch(Strict, frozen=True):
    """Several pieces of feedback."""

    requests: list[ClickFeedback]


class Pin(Strict, frozen=True):
    """A version to serve, or to go on from."""

    version: Version


class Erase(Strict, frozen=True):
    """The client, user or session whose impressions and clicks are to be taken out of the log."""

    source: Id


class Explain(Strict, frozen=True):
    """Documents whose places are to be explained, or one of the last queries; `draws`: lists drawn for it."""

    documents: list[Document] = []
    recent: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    draws: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
