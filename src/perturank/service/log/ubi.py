"""The meaning of User Behavior Insights records, and the lists that belong to a query_id.

| an event                                                | status   | effect                                         |
|---------------------------------------------------------|----------|------------------------------------------------|
| has an action of the model, on a document of the query  | as feedback: recorded, known, early or late               |
| says that a place was seen                              | as feedback                                               |
| has any other action                                    | ignored  | counted                                        |
| is about a document that no list of the query has shown | 422      | counted                                        |

A query has as many lists as `rank` was asked for with its query_id: pages, or the same search again. An event belongs
to the newest of them that shows its document, and counts once for the query. A query record teaches nothing by
itself, since the features are those that `rank` was sent; it is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from perturank.service.log import Transaction, counters
from perturank.service.log.feedback import Status, record_feedback
from perturank.service.log.records import Event, Feedback, Impression, Record, own_id, verify_id
from perturank.service.log.refusals import NotKnown, Refused
from perturank.service.log.spec import Spec
from perturank.wire.answers import UbiStatus
from perturank.wire.specification import LONGEST_ACTION, MOST_PLACES, UBI_ACTIONS
from perturank.wire.ubi import EventRecord, QueryRecord

MOST_LISTS = 100  # of one query_id
REFUSED = "refused"


class Outcome(NamedTuple):
    """What a record did; `impression` is the list whose events are now to settle."""

    status: UbiStatus
    title: str = ""
    impression: bytes | None = None


class QueryList(NamedTuple):
    """A list of a query, by its name, and what the log has about it: nothing yet, if the list may still come."""

    name: bytes
    records: Sequence[Record]

    @property
    def shown(self) -> Sequence[str]:
        """The documents in their places."""
        return next((each.entry.ids for each in self.records if isinstance(each.entry, Impression)), ())

    def knows(self, document: str, action: str) -> bool:
        """Return whether this event has come before."""
        said = [each.entry for each in self.records if isinstance(each.entry, Feedback)]
        return any((document, action) in entry.event_keys for entry in said)


def _given_name(query_id: str, model: str, secret: bytes) -> bytes | None:
    """Return the list that a query_id names by itself: it is the impression that `rank` has answered."""
    try:
        return verify_id(query_id, model, secret)
    except NotKnown:
        return None


def likely_names(query_id: str, model: str, secret: bytes) -> list[bytes]:
    """Return the names that are looked for in nearly all cases, so that they can be read beforehand."""
    given = _given_name(query_id, model, secret)
    return [own_id(query_id, model, secret, n) for n in range(2)] if given is None else [given]


def lists_of(transaction: Transaction, query_id: str, model: str, secret: bytes) -> list[QueryList]:
    """Return the lists of a query in the order in which they were shown, and behind them the one that may come."""
    given = _given_name(query_id, model, secret)
    first = own_id(query_id, model, secret) if given is None else given
    found = [QueryList(first, transaction.about(first))]
    if given is not None:
        return found
    while found[-1].shown and len(found) < MOST_LISTS:
        name = own_id(query_id, model, secret, len(found))
        found.append(QueryList(name, transaction.about(name)))
    return found


def next_name(transaction: Transaction, query_id: str, model: str, secret: bytes) -> bytes:
    """Return the name of the next list of a query."""
    found = lists_of(transaction, query_id, model, secret)
    if found[0].name != own_id(query_id, model, secret):
        raise Refused("query_id is the impression of another list", "send it as `continues`, or a query_id of your own")
    if found[-1].shown:
        what = f"query_id {query_id!r} has {len(found)} lists"
        raise Refused(what, "send a new query_id with every search, and the same one with its pages")
    return found[-1].name


def record_event(transaction: Transaction, model: str, event: EventRecord, secret: bytes) -> Outcome:
    """Write what an event says to the log, count it, and return what it did; refuse what cannot be."""
    spec = transaction.require_model(model).spec
    try:
        outcome = _of_event(transaction, model, spec, event, secret)
    except Refused:
        transaction.counters.add(model, {counters.UBI + REFUSED: 1})
        raise
    transaction.counters.add(model, {counters.UBI + outcome.status: 1})
    return outcome


def _of_event(transaction: Transaction, model: str, spec: Spec, event: EventRecord, secret: bytes) -> Outcome:
    given = event.action_name
    action = spec.ubi.actions.get(given) or (given if given in spec.actions else UBI_ACTIONS.get(given, given))
    is_known, tells_seen = action in spec.actions, given in spec.ubi.seen
    if not is_known and not tells_seen:
        return Outcome("ignored", f"the model has no action {given[:LONGEST_ACTION]!r}")
    if event.query is None:
        raise Refused("the event has no query_id", "send the query_id that the list was ranked with")
    if is_known and event.document is None:
        raise Refused("the event names no document", "send event_attributes.object.object_id")
    lists = lists_of(transaction, event.query, model, secret)
    if is_known and any(each.knows(event.document or "", action) for each in lists):
        return Outcome("known")
    chosen = _list_of(lists, event.document)
    place = _place(chosen, event, spec.ubi.ordinal_base) if tells_seen else 0
    if not is_known and not place:
        return Outcome("ignored", "neither a document of the list nor an ordinal says which place was seen")
    events = [Event(event.document, action)] if is_known and event.document is not None else []
    status: Status = record_feedback(
        transaction,
        model,
        chosen.name,
        [],
        False,
        events=events,
        seen=place,
        actions=spec.actions,
        source=event.client,
    )
    return Outcome(status, impression=chosen.name if events and status in ("recorded", "early") else None)


def _list_of(lists: Sequence[QueryList], document: str | None) -> QueryList:
    """Return the newest list that shows the document, or the one that may still come if there is none yet."""
    shown = [each for each in lists if each.shown]
    if not shown:
        return lists[0]
    if document is None:
        return shown[-1]
    for each in reversed(shown):
        if document in each.shown:
            return each
    raise Refused(f"document {document!r} was not shown", "send the id that it had in the list's ranking")


def _place(chosen: QueryList, event: EventRecord, base: int) -> int:
    """Return which place was seen; 0: it is not known."""
    if event.document in chosen.shown:
        return chosen.shown.index(event.document) + 1
    try:
        place = event.place(base)
    except ValueError as error:
        raise Refused("the ordinal is no number", str(error)) from None
    if place is not None and not 1 <= place <= MOST_PLACES:
        remedy = f"ordinals of this model begin with {base}: `ordinal_base` of its `ubi` says so"
        raise Refused(f"ordinal {event.ordinal} is no place of a list", remedy)
    return place or 0


def note_query(transaction: Transaction, model: str, query: QueryRecord, secret: bytes) -> Outcome:
    """Count a query, and return whether there is a list of it."""
    transaction.require_model(model)
    if query.query is None:
        transaction.counters.add(model, {counters.UBI + REFUSED: 1})
        raise Refused("the query has no query_id", "send the query_id that the list is ranked with")
    is_listed = bool(lists_of(transaction, query.query, model, secret)[0].shown)
    why = "`rank` has answered no list with this query_id, and a list is learned from the features that it is sent"
    outcome = Outcome("listed") if is_listed else Outcome("unlisted", why)
    transaction.counters.add(model, {counters.UBI + outcome.status: 1})
    return outcome
