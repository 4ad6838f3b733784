"""What is counted of lists and clicks, by the names under which the sums beside the log hold it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from perturank.service import costing
from perturank.service.entries import Impression
from perturank.service.log.sums import LARGEST, Amounts

LISTS, LENGTH, CLICK, FEEDBACK = "lists ", "length ", "click ", "feedback "
PLACES, CERTAIN = "places", "certain places"  # of lists that might have explored
PAIRS_ASKED, UNCERTAIN = "sampled queries", "uncertain share"
LEARNED, UPDATES, UPDATE_SECONDS = "learned", "updates", "update seconds"


def shown(entry: Impression, certain: Sequence[bool]) -> Amounts:
    """Return what a list adds."""
    amounts = {LISTS + entry.mode: 1.0, f"{LENGTH}{len(entry.ids)}": 1.0}
    if entry.mode == "learn":
        amounts |= {PLACES: len(certain), CERTAIN: sum(certain)}
        if entry.agreed is not None:
            amounts[costing.LISTS] = 1
    return amounts


def clicked(entry: Impression, before: Collection[str], news: Sequence[str]) -> Amounts:
    """Return what new clicks on a list add to those before them."""
    amounts = costing.clicked(entry, before, {*before, *news})
    for document in news:
        amounts[f"{CLICK}{entry.ids.index(document) + 1}"] = 1
    return amounts


def numbered(sums: Mapping[str, float], prefix: str) -> dict[int, float]:
    """Return the amounts whose names are this prefix and a number, by number."""
    return {int(name.removeprefix(prefix)): amount for name, amount in sums.items() if name.startswith(prefix)}


def clicks_by_place(sums: Mapping[str, float]) -> list[tuple[int, int, int]]:
    """Return (place, how often something was shown there, clicks), from the first place on."""
    lengths, clicks = numbered(sums, LENGTH), numbered(sums, CLICK)
    last = max([*lengths, *clicks], default=0)
    seen = {place: sum(n for length, n in lengths.items() if length >= place) for place in range(1, last + 1)}
    return [(place, int(n), int(clicks.get(place, 0))) for place, n in seen.items()]


def summary(sums: Mapping[str, float]) -> dict[str, Any]:
    """Return what people ask of sums: counts, means and shares; None where there is nothing to divide by."""
    price = costing.cost(sums)
    return {
        "lists": {mode: int(sums.get(LISTS + mode, 0)) for mode in ("learn", "exploit", "shadow")},
        "feedback": {status: int(sums.get(FEEDBACK + status, 0)) for status in ("recorded", "early", "late")},
        "clicks": int(sum(numbered(sums, CLICK).values())),
        "certain_places": ratio(sums, CERTAIN, PLACES),
        "uncertain_pairs": ratio(sums, UNCERTAIN, PAIRS_ASKED),
        "learned": int(sums.get(LEARNED, 0)),
        "updates": int(sums.get(UPDATES, 0)),
        "update_seconds": ratio(sums, UPDATE_SECONDS, UPDATES),
        "lag": ratio(sums, "lag", "lags"),
        "largest_lag": sums.get(LARGEST + "lag"),
        "exploration": None if price is None else asdict(price) | {"cost": price.cost},
    }


def ratio(sums: Mapping[str, float], above: str, below: str) -> float | None:
    """Return one amount over another; None where the other is 0."""
    return sums.get(above, 0) / sums[below] if sums.get(below) else None
