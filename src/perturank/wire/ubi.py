"""User Behavior Insights (UBI) 1.3: query and event records as `ubi.js` sends them and as search engines keep them.

Real logs are less strict than the schemas (https://o19s.github.io/ubi): ids are text or numbers, times ISO 8601 or
milliseconds, fields null or absent, and applications add fields of their own. All of this is read.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated

import msgspec

LONGEST_NAME = 200  # the schemas allow 100 and 256
Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Key = Name | int  # an id: documents and clients may be numbered
Time = str | int | float
Number = int | float | str


class EventOrdinal(msgspec.Struct, frozen=True):
    """An ordinal as UBI 1.0 had it."""

    index: Number | None = None


class EventPosition(msgspec.Struct, frozen=True):
    """Where on the page something happened; the first place is 0 or 1, as the application has it."""

    ordinal: Number | EventOrdinal | None = None


class EventObject(msgspec.Struct, frozen=True):
    """What somebody did something with."""

    object_id: Key | None = None
    object_id_field: str | None = None


class EventAttributes(msgspec.Struct, frozen=True):
    """What an event is about."""

    object: EventObject | None = None
    position: EventPosition | None = None


class Recorded(msgspec.Struct, frozen=True):
    """What query and event records have in common."""

    application: Name | None = None
    query_id: Key | None = None
    client_id: Key | None = None
    session_id: Key | None = None
    user_id: Key | None = None
    timestamp: Time | None = None
    user_query: str | None = None

    @property
    def query(self) -> str | None:
        """The id of the query; None: the record has none."""
        return _text(self.query_id)

    @property
    def client(self) -> str | None:
        """The client, such as a browser; None: the record has none."""
        return _text(self.client_id)

    @property
    def at(self) -> int | None:
        """When it happened, in milliseconds since 1970; None: the record does not say. ValueError: it is no time."""
        return None if self.timestamp is None else milliseconds(self.timestamp)


class QueryRecord(Recorded, frozen=True):
    """A search: what was asked, and which documents the engine returned, the first one first."""

    object_id_field: str | None = None
    query_response_id: str | None = None
    query_response_hit_ids: list[Key] | None = None

    @property
    def hits(self) -> list[str]:
        """The documents that were returned, in order; many records have none."""
        return [str(each) for each in self.query_response_hit_ids or ()]


class EventRecord(Recorded, frozen=True, kw_only=True):
    """Something that somebody did: with a document, a list, or the page."""

    action_name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
    event_attributes: EventAttributes | None = None

    @property
    def document(self) -> str | None:
        """The document that it is about; None: it is about none."""
        about = self.event_attributes and self.event_attributes.object
        return _text(about.object_id) if about else None

    @property
    def ordinal(self) -> int | None:
        """The document's number in the list, from 0 or 1 on; None: the record does not say. ValueError: no number."""
        where = self.event_attributes and self.event_attributes.position
        number = where.ordinal if where else None
        if isinstance(number, EventOrdinal):
            number = number.index
        return None if number is None else _whole(number)

    def place(self, base: int) -> int | None:
        """Return the document's place, from 1 on, where ordinals begin with `base`; below 1: it is in no list."""
        return None if self.ordinal is None else self.ordinal + 1 - base


decode_query = msgspec.json.Decoder(QueryRecord).decode
decode_event = msgspec.json.Decoder(EventRecord).decode


def separate(content: bytes) -> list[msgspec.Raw]:
    """Return the records of a JSON array, or the one record, unread: each can be refused on its own.

    >>> [bytes(each) for each in separate(b'[{"action_name": "click"}, 7]')]
    [b'{"action_name": "click"}', b'7']
    """
    if content.lstrip()[:1] != b"{":
        return msgspec.json.decode(content, type=list[msgspec.Raw])
    return [msgspec.json.decode(content, type=msgspec.Raw)]


def milliseconds(time: Time) -> int:
    """Return a time as milliseconds since 1970; ISO 8601 without an offset is UTC.

    >>> milliseconds("2025-01-24T07:31:52.102+0000"), milliseconds(1717527762025), milliseconds("1717527762025")
    (1737703912102, 1717527762025, 1717527762025)
    """
    if isinstance(time, str) and not time.isdecimal():
        moment = datetime.fromisoformat(time)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    return _whole(time)


def _whole(number: Number) -> int:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number!r} is no number")
    return int(value)


def _text(key: Key | None) -> str | None:
    """Return an id as text; None: there is none, or it is empty."""
    return None if key is None or key == "" else str(key)
