"""The meaning of feedback: each click counts once, however often and whenever it arrives.

| the impression is          | and the feedback                    | status   | effect                          |
|----------------------------|-------------------------------------|----------|---------------------------------|
| open                       | says something new                  | recorded | clicks are added; final: learned |
| any                        | says nothing new                    | known    | none                            |
| open                       | clicks what was not shown           | 422      | none                            |
| of an earlier generation   | says something new                  | recorded | kept and counted, not learned   |
| final                      | clicks something new                | 409      | none: the feedback was complete |
| closed by its window       | clicks something new                | late     | kept in the log, not learned    |
| compacted, or erased       | anything                            | late     | none                            |
| given, not yet in the log  | anything, for the first time        | early    | counts if the impression comes  |
| never given                | anything                            | 404      | none                            |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from perturank.service.log import Transaction, counters
from perturank.service.log.records import (
    Closed,
    Compacted,
    Deleted,
    Effect,
    Erased,
    Feedback,
    Impression,
    Record,
    made_at,
)
from perturank.service.log.refusals import Contradiction, Refused

Status = Literal["recorded", "known", "early", "late"]


def record_feedback(
    transaction: Transaction, model: str, impression: bytes, clicks: Sequence[str], final: bool
) -> Status:
    """Write the clicks to the log, count them, and return what they did."""
    records = transaction.about(impression)
    shown = next((record for record in records if isinstance(record.entry, Impression)), None)
    given = [record.entry for record in records if isinstance(record.entry, Feedback)]
    clicked = {document for entry in given for document in entry.clicks}
    news = [document for document in dict.fromkeys(clicks) if document not in clicked]
    if shown is not None:
        _check_shown(shown, clicks)
    if not news and (not final or any(entry.final for entry in given)):
        return "known"
    if shown is None and made_at(impression) < _deleted_before(transaction, model):
        return "late"
    if any(entry.final for entry in given):
        raise Contradiction(f"the feedback was final before {news[0]!r} was clicked", "send final=true with the last")
    effect = _effect(transaction, model, impression, shown)
    if effect == "late" and not news:
        return "known"
    position = transaction.append(model, Feedback(news, final, effect), impression)
    if final and effect != "late":
        transaction.counters.completed[model] = position
    status: Status = "recorded" if effect == "counted" else effect
    transaction.counters.add(model, {counters.FEEDBACK + status: 1})
    if effect == "counted" and shown is not None and isinstance(shown.entry, Impression):
        transaction.counters.add(model, counters.click_amounts(shown.entry, clicked, news))
    return status


def _effect(transaction: Transaction, model: str, impression: bytes, shown: Record | None) -> Effect:
    closed = closed_up_to(transaction, model)
    if shown is None:
        return "late" if made_at(impression) < closed else "early"
    return "late" if shown.position <= closed else "counted"


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


def _check_shown(shown: Record, clicks: Sequence[str]) -> None:
    assert isinstance(shown.entry, Impression)
    stranger = next((document for document in clicks if document not in shown.entry.ids), None)
    if stranger is not None:
        raise Refused(f"document {stranger!r} was clicked but not shown", "send ids of this impression's ranking")


def close_windows(transaction: Transaction, model: str, position: int) -> int | None:
    """Close the windows of all impressions up to this position; None: they were closed before."""
    if position <= closed_up_to(transaction, model):
        return None
    closing = transaction.append(model, Closed(position))
    transaction.counters.completed[model] = closing
    return closing
