"""Support: how much of a log says anything about another ranker, and what exploration it would take to say more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST_EFFECTIVE = 200.0  # lists; below, intervals were measured to miss the truth too often
LEAST_IN_TAIL = 40.0  # lists that decide the spread of the others
LEAST_SUPPORT = 0.98
SURE = 3.0  # standard errors by which weights may be off what they must add up to
SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of places that any document may take


@dataclass(frozen=True)
class Support:
    """How much of the log speaks of B: `share` of what B shows could have been logged, and so many lists in effect."""

    share: float
    effective: float
    refusal: str = ""  # why no estimate is given


def of_weights(weights: np.ndarray, stakes: np.ndarray) -> Support:
    """Return the support that the logged weights [n, k] show: their mean is the share of B's lists that A can show."""
    together = weights @ stakes
    n, total = len(together), together.sum()
    share, squares = float(total / n), (together**2).sum()
    effective = float(total**2 / squares) if squares > 0 else 0.0
    error = float(together.std()) / n**0.5
    if effective >= LEAST_EFFECTIVE and share > 1 + SURE * error + 1e-6:
        why = f"the logged probabilities do not add up: lists weigh {share:.2f} on average, and should 1"
        return Support(share, effective, why)
    return _judged(min(share, 1.0), min(share + SURE * error, 1.0), effective)


def of_reach(reach: np.ndarray, stakes: np.ndarray) -> Support:
    """Return the exact support, from the probability that A shows what B shows, up to each place or at it; [n, k].

    Σ stake·weight has, over A's lists, mean Σ stake·[reach > 0]. Its second moment is at most (Σ stake / √reach)², its
    fourth at most (Σ stake / reach^¾)⁴. The two say how many lists decide its spread: where a few seldom lists weigh
    much more than the others, a log without them looks surer than it is.
    """
    can = reach > 0
    share = float((can @ stakes).mean())
    known = np.where(can, reach, 1)  # a place that A cannot reach has weight 0 in every list
    second = float((((known**-0.5 * can) @ stakes) ** 2).mean())
    fourth = float((((known**-0.75 * can) @ stakes) ** 4).mean())
    if second == 0:
        return _judged(share, share, 0.0)
    return _judged(share, share, len(reach) * share**2 / second, len(reach) * second**2 / fourth)


def _judged(share: float, at_most: float, effective: float, tail: float = LEAST_IN_TAIL) -> Support:
    if at_most < LEAST_SUPPORT:
        return Support(share, effective, f"A could have shown only {share:.1%} of what B shows")
    if effective < LEAST_EFFECTIVE:
        few = f"the log is worth {effective:.3g} lists of B, and an interval needs {LEAST_EFFECTIVE:.0f}"
        return Support(share, effective, few)
    if tail < LEAST_IN_TAIL:
        few = f"{tail:.2g} lists that A seldom shows decide the spread, and an interval needs {LEAST_IN_TAIL:.0f}"
        return Support(share, effective, few)
    return Support(share, effective)


def needed_exploration(reach: np.ndarray, stakes: np.ndarray, candidates: Sequence[int]) -> tuple[float, float]:
    """Return a share of places that any candidate may take, and after how many lists B could then be judged.

    It is the smallest share for which ten times this log would do, or else the one that takes the fewest lists. `reach`
    [n, k] is the probability of B's first documents as it is; `candidates` [n] is how many documents there were.
    """
    above = np.column_stack([np.ones(len(reach)), reach[:, :-1]])
    place = np.divide(reach, above, out=np.zeros_like(reach), where=above > 0)
    left = np.maximum(np.asarray(candidates)[:, None] - np.arange(reach.shape[1]), 1)
    found = []
    for share in SHARES:
        then = np.cumprod((1 - share) * place + share / left, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            lists = LEAST_EFFECTIVE * float((((then**-0.5) @ stakes) ** 2).mean())
        if not np.isfinite(lists):
            continue  # without exploration, some of B's lists are never shown
        found.append((share, lists))
        if lists <= 10 * len(reach):
            return share, lists
    return min(found, key=lambda each: each[1])
