"""What is counted of lists, clicks and learning, by the names under which the sums beside the log hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perturank.service.log import Transaction
from perturank.service.log.feedback import Status, give_feedback
from perturank.service.log.records import Feedback, Impression
from perturank.service.log.sums import LAG, LAGS, LARGEST, Amounts
from perturank.service.telemetry import cost

LISTS, LENGTH, CLICK, FEEDBACK = "lists ", "length ", "click ", "feedback "
PLACES, CERTAIN = "places", "certain places"  # of lists that might have explored
SAMPLED, UNCERTAIN = "sampled queries", "uncertain share"
LEARNED, UPDATES, UPDATE_SECONDS = "learned", "updates", "update seconds"


def list_amounts(entry: Impression, certain: Sequence[bool]) -> Amounts:
    """Return what a list adds."""
    amounts = {LISTS + entry.mode: 1.0, f"{LENGTH}{len(entry.ids)}": 1.0}
    if entry.mode == "learn":
        amounts |= {PLACES: len(certain), CERTAIN: sum(certain)}
        if entry.agreed is not None:
            amounts[cost.LISTS] = 1
    return amounts


def record_feedback(
    transaction: Transaction, model: str, impression: bytes, clicks: Sequence[str], final: bool
) -> Status:
    """Write the clicks to the log, count what they did, and return it."""
    before = [record.entry for record in transaction.about(impression)]
    status = give_feedback(transaction, model, impression, clicks, final)
    for record in transaction.about(impression)[len(before) :]:  # one, or none
        transaction.tally.add(model, {FEEDBACK + status: 1})
        shown = next((entry for entry in before if isinstance(entry, Impression)), None)
        if status == "recorded" and shown is not None and isinstance(record.entry, Feedback):
            known = {click for entry in before if isinstance(entry, Feedback) for click in entry.clicks}
            transaction.tally.add(model, click_amounts(shown, known, record.entry.clicks))
    return status


def click_amounts(shown: Impression, known: set[str], new: Sequence[str]) -> Amounts:
    """Return what new clicks on a list add."""
    places = {f"{CLICK}{shown.ids.index(document) + 1}": 1 for document in new}
    return places | cost.amounts(shown, known, known.union(new))


def by_place(sums: Mapping[str, float]) -> list[dict[str, int]]:
    """Return each place, from the first on, with how often something was shown there and clicked."""
    lengths, clicks = _numbered(sums, LENGTH), _numbered(sums, CLICK)
    places = range(1, max([*lengths, *clicks], default=0) + 1)
    seen = [int(sum(n for length, n in lengths.items() if length >= place)) for place in places]
    return [{"place": i, "shown": n, "clicks": int(clicks.get(i, 0))} for i, n in zip(places, seen, strict=True)]


def summary(sums: Mapping[str, float]) -> dict[str, Any]:
    """Return what people ask of sums: counts, means and shares; None where there is nothing to divide by."""
    return {
        "lists": {mode: int(sums.get(LISTS + mode, 0)) for mode in ("learn", "exploit", "shadow")},
        "feedback": {status: int(sums.get(FEEDBACK + status, 0)) for status in ("recorded", "early", "late")},
        "clicks": int(sum(_numbered(sums, CLICK).values())),
        "certain_places": _ratio(sums, CERTAIN, PLACES),
        "uncertain_pairs": _ratio(sums, UNCERTAIN, SAMPLED),
        "learned": int(sums.get(LEARNED, 0)),
        "updates": int(sums.get(UPDATES, 0)),
        "update_seconds": _ratio(sums, UPDATE_SECONDS, UPDATES),
        "lag": _ratio(sums, LAG, LAGS),
        "largest_lag": sums.get(LARGEST + LAG),
        "exploration": cost.summary(sums),
    }


def _numbered(sums: Mapping[str, float], prefix: str) -> dict[int, float]:
    """Return the amounts whose names are this prefix and a number, by number."""
    return {int(name.removeprefix(prefix)): amount for name, amount in sums.items() if name.startswith(prefix)}


def _ratio(sums: Mapping[str, float], above: str, below: str) -> float | None:
    return sums.get(above, 0) / sums[below] if sums.get(below) else None
