"""The cost of exploration: the best estimate's reciprocal rank less that of what was shown.

A reader goes down the list; whether the first click is at place j depends on the documents up to j
alone. A list that agrees with the best estimate that far, which it does with a probability q_j that
is known, then stands for 1 / q_j readers of the best estimate:

    best  = mean of [the first click is at j and the list agrees up to j] / (j · q_j)
    shown = mean of [the first click is at j] / j
    cost  = best - shown

Both means are over the same lists: first pages that might have explored and whose probabilities are known.
The counters are updated as clicks come, in whatever parts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping

from perturank.service.log.records import Impression

LISTS, SHOWN, BEST, SQUARES = "priced lists", "reciprocal rank shown", "reciprocal rank best", "squared cost"


def worth(shown: Impression, clicks: Collection[str]) -> tuple[float, float]:
    """Return what the first of these clicks says of the shown list and of the best estimate."""
    place = next((place for place, document in enumerate(shown.ids, start=1) if document in clicks), None)
    if place is None or shown.agreed is None or shown.earlier:
        return 0.0, 0.0
    if 4 * place > len(shown.agreed):
        return 1 / place, 0.0
    (log_q,) = struct.unpack_from("<f", shown.agreed, 4 * (place - 1))
    return 1 / place, math.exp(-log_q) / place


def click_amounts(shown: Impression, before: Collection[str], after: Collection[str]) -> dict[str, float]:
    """Return what is added to the counters when these clicks become those."""
    was, now = worth(shown, before), worth(shown, after)
    squares = (now[1] - now[0]) ** 2 - (was[1] - was[0]) ** 2
    return {SHOWN: now[0] - was[0], BEST: now[1] - was[1], SQUARES: squares} if was != now else {}


def summary(amounts: Mapping[str, float]) -> dict[str, float] | None:
    """Return the cost over the lists of these counters, with its standard error; None: there are none."""
    n = int(amounts.get(LISTS, 0))
    if n < 1:
        return None
    shown, best = amounts.get(SHOWN, 0) / n, amounts.get(BEST, 0) / n
    variance = max(0.0, amounts.get(SQUARES, 0) / n - (best - shown) ** 2)
    return {"lists": n, "shown": shown, "best": best, "error": math.sqrt(variance / n), "cost": best - shown}
