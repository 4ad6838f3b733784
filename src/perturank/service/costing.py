"""What exploration costs: the reciprocal rank of the best estimate's order, less that of what was shown.

A reader goes down the list; whether the first click is at place j depends on the documents up to j
alone. A list that agrees with the best estimate that far, which it does with a probability q_j that
is known, then stands for 1 / q_j readers of the best estimate:

    best  = mean of [the first click is at j and the list agrees up to j] / (j · q_j)
    shown = mean of [the first click is at j] / j
    cost  = best - shown

Both means are over the same lists: those that might have explored and whose probabilities are known.
The sums are kept up to date as clicks come, in whatever parts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from perturank.service.entries import Impression
from perturank.service.log.sums import Amounts

LISTS, SHOWN, BEST, SQUARES = "priced lists", "reciprocal rank shown", "reciprocal rank best", "squared cost"


def agreed(log_p: Sequence[float], order: Sequence[int], best: Sequence[int], share: float) -> bytes:
    """Return log q_j, float32, for each place j up to which the order agrees with the best estimate.

    log_p [k] are the places' own log-probabilities when the list explores, which a share of the lists do.
    """
    found, together = [], 0.0
    for place, document in enumerate(order):
        if document != best[place]:
            break
        together += log_p[place]
        found.append(min(0.0, together if share == 1 else math.log(share * math.exp(together) + (1 - share))))
    return struct.pack(f"<{len(found)}f", *found)


def first(shown: Impression, clicks: Collection[str]) -> int | None:
    """Return the place of the first click, from 1."""
    return next((place for place, document in enumerate(shown.ids, start=1) if document in clicks), None)


def worth(shown: Impression, place: int | None) -> tuple[float, float]:
    """Return what a first click at this place says of the shown list and of the best estimate."""
    if place is None or shown.agreed is None:
        return 0.0, 0.0
    if 4 * place > len(shown.agreed):
        return 1 / place, 0.0
    (log_q,) = struct.unpack_from("<f", shown.agreed, 4 * (place - 1))
    return 1 / place, math.exp(-log_q) / place


def clicked(shown: Impression, before: Collection[str], after: Collection[str]) -> Amounts:
    """Return what changes in the sums when these clicks become those."""
    if shown.agreed is None:
        return {}
    was, now = worth(shown, first(shown, before)), worth(shown, first(shown, after))
    if was == now:
        return {}
    squares = (now[1] - now[0]) ** 2 - (was[1] - was[0]) ** 2
    return {SHOWN: now[0] - was[0], BEST: now[1] - was[1], SQUARES: squares}


@dataclass(frozen=True)
class Cost:
    """The estimate over some lists, with its standard error."""

    lists: int
    shown: float
    best: float
    error: float

    @property
    def cost(self) -> float:
        """Reciprocal rank lost to exploration."""
        return self.best - self.shown


def cost(sums: Mapping[str, float]) -> Cost | None:
    """Return the cost over the lists of these sums; None: there are none."""
    n = sums.get(LISTS, 0)
    if n < 1:
        return None
    shown, best = sums.get(SHOWN, 0) / n, sums.get(BEST, 0) / n
    variance = max(0.0, sums.get(SQUARES, 0) / n - (best - shown) ** 2)
    return Cost(int(n), shown, best, math.sqrt(variance / n))
