"""What lists in shadow mode say of the ranker: how far it agrees with the caller's order, and what it would gain.

Visitors saw the caller's order, so nobody knows what they would have done with another. The documents that they saw
are put into the ranker's order; those that its list lacks come last, as they stood. A list whose first click was at
place r, and of whose clicked documents the first would stand at u, counts

    g = 1/u - 1/r,

the difference in the reciprocal rank of the first click if its clicks had followed their documents. That leaves out
those who would have clicked a document had they seen it. A place is read by a share t of the visitors, and

    c_r / c_1  ≤  t_r  ≤  1,

c being the share of lists clicked at a place: nobody reads a lower place more often than the first, and the caller's
order is no worse than chance, so that clicks fall at least as fast as reading does. A list that was first clicked at r
stands for 1/t_r lists. So the gain lies between two sums over places, each with the end of t that suits it:

    least = mean of min(g, g/t_r),    most = mean of max(g, g/t_r).

`low` and `high` add a confidence sequence (`perturank.anytime`): they may be looked at every day. Each place counts one
list more than there was, of the largest gain, since the seldom clicks on low places decide the spread. Documents that
nobody saw are not judged: `overlap` says how many of the ranker's there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Literal, TypedDict

from perturank import anytime
from perturank.service.log.quality import clicked_documents
from perturank.service.log.records import EventKey, Impression

SHADOW = "shadow "  # names of counters begin so
LISTS, PLACES, OVERLAP, AGREEMENT = (SHADOW + word for word in ("lists", "places", "overlap", "agreement"))
CLICKS, GAIN, SQUARES = (SHADOW + word for word in ("clicks ", "gain ", "squared gain "))  # a place follows
PATIENCE = 0.9  # of a reader, in the rank-biased overlap: reads on to the next place with this probability
LEVEL = 0.05
DIGITS = 6

Amounts = dict[str, float]


class ShadowStanding(TypedDict):
    """What so many lists in shadow mode say of the ranker.

    `overlap` is the share of its documents that were shown, `agreement` the rank-biased overlap. The gain in the
    reciprocal rank of the first click, on the documents that were shown, lies between `least` and `most`, or with 95 %
    at all times together between `low` and `high`; `verdict` says whether it is on one side of 0.
    """

    lists: int
    overlap: float
    agreement: float
    least: float
    most: float
    low: float
    high: float
    verdict: Literal["better", "worse", "open"]


def is_counted(shown: Impression) -> bool:
    """Return whether a list is counted: the first page of one in shadow mode."""
    return shown.mode == "shadow" and shown.ours is not None and not shown.earlier


def list_amounts(shown: Impression) -> Amounts:
    """Return what a list without events adds to the counters."""
    if not is_counted(shown) or shown.ours is None:
        return {}
    overlap = len(set(shown.ids) & set(shown.ours)) / len(shown.ids)
    agreement = rank_biased_overlap(shown.ids, shown.ours)
    return {LISTS: 1.0, PLACES: float(len(shown.ids)), OVERLAP: overlap, AGREEMENT: agreement}


def event_amounts(
    shown: Impression, before: Collection[EventKey], after: Collection[EventKey], actions: Mapping[str, float]
) -> Amounts:
    """Return what is added to the counters when these events become those."""
    if not is_counted(shown):
        return {}
    was, now = (_amounts(shown, clicked_documents(events, actions)) for events in (before, after))
    changes = {name: now.get(name, 0.0) - was.get(name, 0.0) for name in {**was, **now}}
    return {name: amount for name, amount in changes.items() if amount}


def _amounts(shown: Impression, clicked: Collection[str]) -> Amounts:
    """Return the sums over this list alone."""
    places = [place for place, document in enumerate(shown.ids, start=1) if document in clicked]
    if not places:
        return {}
    theirs = next(place for place, document in enumerate(reranked(shown), start=1) if document in clicked)
    gain = 1 / theirs - 1 / places[0]
    return {f"{CLICKS}{place}": 1.0 for place in places} | {
        f"{GAIN}{places[0]}": gain,
        f"{SQUARES}{places[0]}": gain**2,
    }


def reranked(shown: Impression) -> list[str]:
    """Return the documents that were shown in the ranker's order; those that its list lacks come last."""
    place = {document: i for i, document in enumerate(shown.ours or ())}
    return sorted(shown.ids, key=lambda document: place.get(document, len(place)))


def rank_biased_overlap(one: Sequence[str], other: Sequence[str]) -> float:
    """Return how alike two lists are for a reader who goes down them (Webber et al., 2010); 1: equal, 0: disjoint.

    It is cut at the shorter list's end.

    >>> rank_biased_overlap(["a", "b"], ["a", "b"]), rank_biased_overlap(["a", "b"], ["c", "d"])
    (1.0, 0.0)
    """
    k, common, total = min(len(one), len(other)), 0, 0.0
    seen: set[str] = set()
    weights = _weights(k)
    for depth in range(k):
        for document in (one[depth], other[depth]):
            common += document in seen
            seen.add(document)
        total += weights[depth] * common / (depth + 1)
    return total


@lru_cache(maxsize=128)
def _weights(k: int) -> list[float]:
    """Return the share of each of k depths."""
    raw = [PATIENCE**depth for depth in range(k)]
    return [each / sum(raw) for each in raw]


def summary(amounts: Mapping[str, float]) -> ShadowStanding | None:
    """Return what these counters say; None: no list was in shadow mode."""
    n = round(amounts.get(LISTS, 0.0))
    if n < 1:
        return None
    least = most = least_squares = most_squares = 0.0
    reading = _reading(amounts)
    for place, read in enumerate(reading, start=1):
        gain, squares = amounts.get(f"{GAIN}{place}", 0.0), max(0.0, amounts.get(f"{SQUARES}{place}", 0.0))
        squares += max(1 - 1 / place, 1 / place - 1 / len(reading)) ** 2  # one more list, as large as it can be
        low, high = (1.0, 1 / read) if gain > 0 else (1 / read, 1.0)
        least, least_squares = least + low * gain, least_squares + low**2 * squares
        most, most_squares = most + high * gain, most_squares + read**-2 * squares
    low = (least - float(anytime.radius(least_squares, LEVEL))) / n
    high = (most + float(anytime.radius(most_squares, LEVEL))) / n
    return ShadowStanding(
        lists=n,
        overlap=_rounded(amounts.get(OVERLAP, 0.0) / n),
        agreement=_rounded(amounts.get(AGREEMENT, 0.0) / n),
        least=_rounded(least / n),
        most=_rounded(most / n),
        low=_rounded(max(low, -1.0)),
        high=_rounded(min(high, 1.0)),
        verdict="better" if low > 0 else "worse" if high < 0 else "open",
    )


def _reading(amounts: Mapping[str, float]) -> list[float]:
    """Return for each place at least how often it is read for each time that the first one is.

    One click more is taken to have been seen at each: of places that are seldom read, the log knows little at first.
    """
    clicked = [int(name.removeprefix(CLICKS)) for name, n in amounts.items() if name.startswith(CLICKS) and n > 0.5]
    k = max([round(amounts.get(PLACES, 0.0) / amounts[LISTS]), *clicked])
    clicks = [max(0.0, amounts.get(f"{CLICKS}{place}", 0.0)) for place in range(1, k + 1)]
    most_below = list(accumulate(reversed(clicks), max))[::-1]  # who reads a place has passed those above it
    return [min(1.0, (n + 1) / (clicks[0] + 1)) for n in most_below]


def standings(periods: Sequence[Mapping[str, float]], total: Mapping[str, float]) -> Iterable[ShadowStanding | None]:
    """Return what is known at the end of each of these periods, oldest first, since the model was made."""
    left = {name: amount for name, amount in total.items() if name.startswith(SHADOW)}
    found = []
    for amounts in reversed(periods):
        found.append(summary(left))
        left = {name: amount - amounts.get(name, 0.0) for name, amount in left.items()}
    return reversed(found)


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
