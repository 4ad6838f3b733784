"""The quality of lists: of those that were shown, and estimates for the best estimate and the caller's own order.

Quality is the reciprocal rank of the first click, and the reward: what the documents turned out to be worth. Of lists
as shown both are measured. Of another order they are estimated from lists that explored. A reader goes down the list,
so what happens at place j depends on the documents up to j alone. A list that agrees with the other order that far,
which it does with a probability q_j that is known, stands for w_j = 1 / q_j readers of it; else w_j is 0.

    least    = mean of [the first click is at j] · w_j / j
    most     = mean of 1 - Σ w_i · d_i over the places i above the first click, with d_i = 1 / (i · (i + 1))
    rank     = (least + most) / 2
    reward   = mean of Σ worth_j · w_j
    coverage = mean of Σ w_j / j, over Σ 1 / j

`most` counts what is lost at each place that a reader passes: 1 / j = 1 - d_1 - … - d_(j-1). A reader who clicks
nothing loses the rest, 1 / k, at the last of k places. Both are unbiased where lists can agree; `least` leaves out the
readers whom no list stands for, and `most` takes them for satisfied. So the truth lies between the two, and their mean
varies less than either. A coverage below 1 says that such readers exist, or that too few lists have agreed so far.

The counters are updated as events come, in whatever parts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from perturank.service.log.records import EventKey, Impression, document_worths
from perturank.wire.specification import CLICK

MODES = ("learn", "exploit", "shadow")  # measured; the fourth, `own`, is shown while nothing is compiled
SHOWN = "shown"  # all three together
BEST, OWN = "best", "own"  # estimated, from lists of the mode `learn`
QUALITY = "quality "  # names of counters begin so; what is measured or estimated follows, and a word of these
LISTS, RANK, RANKS, REWARD, REWARDS = " lists", " rank", " squared rank", " reward", " squared reward"
LEAST, MOST, COVERAGE, COST, COSTS = " least", " most", " coverage", " cost", " squared cost"
WORDS = (LISTS, RANK, RANKS, REWARD, REWARDS, LEAST, MOST, COVERAGE, COST, COSTS)
_NAMES = {name: {word: f"{QUALITY}{name}{word}" for word in WORDS} for name in (*MODES, BEST, OWN)}

Amounts = dict[str, float]


class Quality(NamedTuple):
    """What one list says of an order."""

    least: float
    most: float
    reward: float
    coverage: float

    @property
    def rank(self) -> float:
        """The reciprocal rank of the first click."""
        return (self.least + self.most) / 2


def is_counted(shown: Impression) -> bool:
    """Return whether a list is counted: later pages are not, nor are lists that earlier versions have logged."""
    return shown.mode in MODES and shown.own_agreed is not None and not shown.earlier


def list_amounts(shown: Impression) -> Amounts:
    """Return what a list without events adds to the counters."""
    if not is_counted(shown):
        return {}
    others = _others(shown)
    return {_NAMES[name][LISTS]: 1.0 for name in (shown.mode, *others)} | _amounts(shown, others, (), {})


def event_amounts(
    shown: Impression, before: Collection[EventKey], after: Collection[EventKey], actions: Mapping[str, float]
) -> Amounts:
    """Return what is added to the counters when these events become those."""
    if not is_counted(shown):
        return {}
    others = _others(shown)
    was, now = (_amounts(shown, others, events, actions) for events in (before, after))
    return {name: amount - was[name] for name, amount in now.items() if amount != was[name]}


def _others(shown: Impression) -> dict[str, list[float]]:
    """Return the weights of the orders that a list says something of, beside its own."""
    if shown.agreed is None or shown.own_agreed is None:
        return {}
    return {BEST: weights(shown.agreed), OWN: weights(shown.own_agreed)}


def _amounts(
    shown: Impression,
    others: Mapping[str, Sequence[float]],
    events: Collection[EventKey],
    actions: Mapping[str, float],
) -> Amounts:
    """Return the sums over this list alone."""
    place, by_document = first_click(shown, events, actions), document_worths(events, actions)
    worths = [by_document.get(document, 0.0) for document in shown.ids]
    rank, reward, of = 0.0 if place is None else 1 / place, sum(worths), _NAMES[shown.mode]
    amounts = {of[RANK]: rank, of[RANKS]: rank**2, of[REWARD]: reward, of[REWARDS]: reward**2}
    for order, each in others.items():
        found, of = quality(each, place, worths), _NAMES[order]
        amounts |= {of[LEAST]: found.least, of[MOST]: found.most, of[RANKS]: found.rank**2}
        amounts |= {of[REWARD]: found.reward, of[REWARDS]: found.reward**2, of[COVERAGE]: found.coverage}
        if order == BEST:
            amounts |= {of[COST]: found.rank - rank, of[COSTS]: (found.rank - rank) ** 2}
    return amounts


def first_click(shown: Impression, events: Collection[EventKey], actions: Mapping[str, float]) -> int | None:
    """Return the first place whose document was clicked, or met with another action of worth; None: there is none."""
    chosen = clicked_documents(events, actions)
    return next((place for place, document in enumerate(shown.ids, start=1) if document in chosen), None)


def clicked_documents(events: Collection[EventKey], actions: Mapping[str, float]) -> set[str]:
    """Return the documents that were clicked, or met with another action of worth."""
    return {document for document, action in events if action == CLICK or actions.get(action, 0) > 0}


def weights(agreed: bytes) -> list[float]:
    """Return w_1, w_2, … from the log-probabilities of agreeing so far; at all other places it is 0."""
    return [math.exp(-log_q) for (log_q,) in struct.iter_unpack("<f", agreed)]


def quality(weights: Sequence[float], click: int | None, worths: Sequence[float]) -> Quality:
    """Return what a list says of an order, from its weights, the place of the first click and the worths [k]."""
    k = len(worths)
    passed = k if click is None else click - 1
    least = 0.0 if click is None or click > len(weights) else weights[click - 1] / click
    most, reward, coverage = 1.0, 0.0, 0.0
    for place, (w, worth, loss, discount) in enumerate(zip(weights, worths, _losses(k), _discounts(k), strict=False)):
        most -= w * loss if place < passed else 0.0
        reward += w * worth
        coverage += w * discount
    return Quality(least, most, reward, coverage)


@lru_cache(maxsize=128)
def _losses(k: int) -> list[float]:
    """Return what is lost at each of k places that is passed; the sum is 1."""
    return [1 / (place * (place + 1)) for place in range(1, k)] + [1 / k]


@lru_cache(maxsize=128)
def _discounts(k: int) -> list[float]:
    """Return the share of each of k places in the coverage."""
    total = sum(1 / place for place in range(1, k + 1))
    return [1 / place / total for place in range(1, k + 1)]


def sums(amounts: Mapping[str, float]) -> dict[str, Amounts]:
    """Return the sums over the lists of each mode, and of both estimated orders, by word."""
    found = {name: _sums(amounts, name) for name in (*MODES, BEST, OWN) if amounts.get(_NAMES[name][LISTS], 0) >= 1}
    for name, each in found.items():
        if name in MODES:
            each |= {LEAST: each[RANK], MOST: each[RANK], COVERAGE: each[LISTS]}
        else:
            each[RANK] = (each[LEAST] + each[MOST]) / 2
    return found


def _sums(amounts: Mapping[str, float], name: str) -> Amounts:
    return {word: amounts.get(counter, 0.0) for word, counter in _NAMES[name].items()}


def summary(amounts: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the same as means over the lists, with standard errors, and those of all modes together."""
    found = sums(amounts)
    measured = [each for name, each in found.items() if name in MODES]
    if measured:
        found[SHOWN] = {word: sum(each[word] for each in measured) for word in measured[0]}
    return {name: _means(each) for name, each in found.items()}


def _means(each: Amounts) -> dict[str, float]:
    n = each[LISTS]
    means = {word.strip(): each[word] / n for word in (RANK, LEAST, MOST, REWARD, COVERAGE)}
    means["rank_error"] = _error(each[RANKS], each[RANK], n)
    means["reward_error"] = _error(each[REWARDS], each[REWARD], n)
    return {"lists": int(n)} | {word: float(f"{mean:.6g}") for word, mean in means.items()}


def exploration(amounts: Mapping[str, float]) -> dict[str, float] | None:
    """Return the cost of exploration: the best estimate's reciprocal rank less that of the lists that explored."""
    each = sums(amounts).get(BEST)
    if each is None:
        return None
    n = each[LISTS]
    best, cost, error = each[RANK] / n, each[COST] / n, _error(each[COSTS], each[COST], n)
    return {"lists": int(n), "shown": best - cost, "best": best, "error": error, "cost": cost}


def _error(squares: float, total: float, n: float) -> float:
    """Return the standard error of a mean over n lists, from the sums of squares and of values."""
    return math.sqrt(max(0.0, squares / n - (total / n) ** 2) / n)
