"""The meaning of feedback: each event counts once, however often and whenever it arrives.

| the impression is          | and the feedback                        | status   | effect                            |
|----------------------------|-----------------------------------------|----------|-----------------------------------|
| open                       | says something new                      | recorded | learned when it has settled       |
| any                        | says nothing new                        | known    | none                              |
| open                       | is about what was not shown             | 422      | none                              |
| any                        | has an action that the model lacks      | 422      | none                              |
| of an earlier generation   | says something new                      | recorded | kept and counted, not learned     |
| closed by its window       | says something new                      | late     | kept in the log, not learned      |
| compacted, or erased       | anything                                | late     | none                              |
| given, not yet in the log  | anything, for the first time            | early    | counts if the impression comes    |
| of a query_id without list | anything, for the first time            | early    | counts if the list comes soon     |
| never given                | anything                                | 404      | none                              |

An impression is open until its window closes. What is known of it settles a while after its last event, or at once with
`final`; then it is learned. Later events of an open impression settle again, and what is new in them is learned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from perturank.service.log import Transaction, counters
from perturank.service.log.records import (
    Closed,
    Compacted,
    Deleted,
    Effect,
    Erased,
    Event,
    EventKey,
    Feedback,
    Impression,
    Record,
    Settled,
    made_at,
)
from perturank.service.log.refusals import Refused
from perturank.wire.specification import ACTIONS, CLICK

Status = Literal["recorded", "known", "early", "late"]


def record_feedback(
    transaction: Transaction,
    model: str,
    impression: bytes,
    clicks: Sequence[str],
    final: bool,
    *,
    events: Sequence[Event] = (),
    seen: int = 0,
    actions: Mapping[str, float] = ACTIONS,
    source: str | None = None,
) -> Status:
    """Write the events to the log, count them, and return what they did; `actions` are those of the model.

    `source` did it, where neither the impression nor earlier feedback says who did.
    """
    records = transaction.about(impression)
    shown = next((record for record in records if isinstance(record.entry, Impression)), None)
    before = [record.entry for record in records if isinstance(record.entry, Feedback)]
    given = [*(Event(document, CLICK) for document in clicks), *events]
    _check_actions(given, actions)
    if shown is not None:
        _check_shown(shown, given, seen)
    known = {key for entry in before for key in entry.event_keys}
    news: dict[EventKey, Event] = {}
    for event in given:
        if event.key not in known:
            news.setdefault(event.key, event)
    new_seen = seen if seen > max((entry.seen for entry in before), default=0) else 0
    settles = final and not (before and before[-1].final)
    if not news and not new_seen and not settles:
        return "known"
    if shown is None and _is_made_before(impression, _deleted_before(transaction, model)):
        return "late"
    effect = _effect(transaction, model, impression, shown)
    if any(entry.was_last for entry in before):
        effect = "late"
    if effect == "late" and not news:
        return "known"
    entry = _entry(news.values(), final, effect, new_seen, None if _has_source(records) else source)
    position = transaction.append(model, entry, impression)
    if final and effect != "late":
        transaction.counters.completed[model] = position
    status: Status = "recorded" if effect == "counted" else effect
    transaction.counters.add(model, {counters.FEEDBACK + status: 1})
    if effect == "counted" and shown is not None and isinstance(shown.entry, Impression):
        transaction.counters.add(model, counters.event_amounts(shown.entry, known, news.values(), actions))
    return status


def _has_source(records: Sequence[Record]) -> bool:
    entries = [record.entry for record in records]
    return any(isinstance(each, Impression | Feedback) and each.source is not None for each in entries)


def _entry(news: Collection[Event], final: bool, effect: Effect, seen: int, source: str | None) -> Feedback:
    clicks = [event.id for event in news if event.action == CLICK and event.value is None]
    others = [event for event in news if event.action != CLICK or event.value is not None]
    return Feedback(clicks, final, effect, others, seen, source)


def _effect(transaction: Transaction, model: str, impression: bytes, shown: Record | None) -> Effect:
    closed = closed_up_to(transaction, model)
    if shown is None:
        return "late" if _is_made_before(impression, closed) else "early"
    return "late" if shown.position <= closed else "counted"


def _is_made_before(impression: bytes, position: int) -> bool:
    """Return whether the impression cannot come any more: a list that the caller has named can always come."""
    made = made_at(impression)
    return made is not None and made < position


def _deleted_before(transaction: Transaction, model: str) -> int:
    """Return the position before which impressions may have been deleted."""
    base, erasure = transaction.newest(model, Compacted), transaction.newest(model, Erased)
    compacted = base.entry.through if base is not None and isinstance(base.entry, Compacted) else 0
    return max(compacted, erasure.position if erasure is not None else 0)


def closed_up_to(transaction: Transaction, model: str) -> int:
    """Return the position up to which the model's windows are closed."""
    ends = (transaction.newest(model, Closed), transaction.newest(model, Deleted))
    return max((_end(record) for record in ends if record is not None), default=0)


def _end(record: Record) -> int:
    return record.entry.through if isinstance(record.entry, Closed) else record.position


def _check_actions(events: Sequence[Event], actions: Mapping[str, float]) -> None:
    strange = next((event.action for event in events if event.action not in actions), None)
    if strange is not None:
        remedy = f"the model knows {', '.join(actions)}; `actions` of its PUT adds others"
        raise Refused(f"the action {strange!r} is not known", remedy)


def _check_shown(shown: Record, events: Sequence[Event], seen: int) -> None:
    assert isinstance(shown.entry, Impression)
    ids = shown.entry.ids
    stranger = next((event for event in events if event.id not in ids), None)
    if stranger is not None:
        done = "clicked" if stranger.action == CLICK else f"sent with {stranger.action!r}"
        what = f"document {stranger.id!r} was {done} but not shown"
        raise Refused(what, "send ids of this impression's ranking")
    if seen > len(ids):
        raise Refused(f"{seen} places were seen, and {len(ids)} shown", f"send 1 … {len(ids)}")


def close_windows(transaction: Transaction, model: str, position: int) -> int | None:
    """Close the windows of all impressions up to this position; None: they were closed before."""
    if position <= closed_up_to(transaction, model):
        return None
    closing = transaction.append(model, Closed(position))
    transaction.counters.completed[model] = closing
    return closing


def settle(transaction: Transaction, model: str, impressions: Sequence[bytes]) -> None:
    """Let what is known of these impressions be learned."""
    if transaction.find_model(model) is not None:  # it may have been deleted
        transaction.counters.completed[model] = transaction.append(model, Settled(list(impressions)))
