"""Lists that another system showed, with what people did with them: the lines of a file of old clicks."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from .requests import LARGEST_VALUE, MOST_EVENTS, Document, Id, Strict
from .specification import Action
from .ubi import Time, milliseconds

MOST_DOCUMENTS = 1000  # of a list


class PastEvent(Strict, frozen=True):
    """What somebody did with a document of the list; the time says no more than that it is one."""

    id: Id
    action: Action
    value: Annotated[float, msgspec.Meta(ge=-LARGEST_VALUE, le=LARGEST_VALUE)] | None = None
    time: Time | None = None

    def __post_init__(self) -> None:
        """Refuse a time that is none; Parquet can hold a value that is no number."""
        if self.value is not None and math.isnan(self.value):
            raise ValueError("the value of an event is NaN")
        if self.time is not None:
            _check_time(self.time)


class PastList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A list as it was shown, the first document first.

    `query_id` names the list: one with a name that the log knows is not imported again. So many top places were
    `seen`. `source` is a client, user or session. `time` is ISO 8601, or milliseconds since 1970.
    """

    query_id: Id
    documents: Annotated[list[Document], msgspec.Meta(min_length=1, max_length=MOST_DOCUMENTS)]
    clicks: Annotated[list[Id], msgspec.Meta(max_length=MOST_DOCUMENTS)] = []
    events: Annotated[list[PastEvent], msgspec.Meta(max_length=MOST_EVENTS)] = []
    seen: Annotated[int, msgspec.Meta(ge=1, le=MOST_DOCUMENTS)] | None = None
    source: Id | None = None
    time: Time | None = None

    def __post_init__(self) -> None:
        """Refuse a time that is none."""
        if self.time is not None:
            _check_time(self.time)

    @property
    def at(self) -> int | None:
        """When it was shown, in milliseconds since 1970; None: the file does not say."""
        return None if self.time is None else milliseconds(self.time)


def _check_time(time: Time) -> None:
    try:
        milliseconds(time)
    except (ValueError, OverflowError):
        raise ValueError(f"{time!r} is no time: write ISO 8601, or milliseconds since 1970") from None
