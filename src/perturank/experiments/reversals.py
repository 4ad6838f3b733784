"""How certain orders fare later: reversed by better-informed models, or wrong against the grades, beside a control.

The control calls equally many pairs of a run certain, those of the largest score difference, instead of those on
which the ranker is certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from perturank.experiments.evidence import Evidence
from perturank.orders import NO_DOCUMENT, Orders, wrong_share
from perturank.results.outcome import RunOutcome

UNCERTAIN, REVERSED, CONTROL_REVERSED, CONTROL_WRONG = (
    "held_out_uncertain",
    "reversed",
    "control_reversed",
    "control_wrong",
)


def with_reversals(evidence: Evidence) -> Evidence:
    """Return the evidence whose runs also know the measures above; NaN where a run has no certain orders."""
    runs = {arm: {user: _measured(found) for user, found in by_user.items()} for arm, by_user in evidence.runs.items()}
    return replace(evidence, runs=runs)


def _measured(runs: Sequence[RunOutcome]) -> list[RunOutcome]:
    """Return the runs of one arm and user, each compared with the final scores of the other seeds of its fold."""
    found = []
    for run in runs:
        others = [
            each.orders[-1].scores
            for each in runs
            if each.job.fold == run.job.fold and each.job.seed != run.job.seed and each.orders
        ]
        later = np.mean(np.asarray(others, np.float64), axis=0) if others else None
        rows = [measures(orders, later) for orders in run.orders] or [_unknown()] * len(run.rounds)
        columns = {name: np.array([row[name] for row in rows], np.float64) for name in _unknown()}
        found.append(replace(run, measures={**run.measures, **columns}))
    return found


def measures(orders: Orders, later: np.ndarray | None) -> Mapping[str, float]:
    """Return how the certain orders and their control compare with later scores [q, V] and with the grades."""
    certain = orders.certain
    if certain is None:
        return _unknown()
    control = largest_differences(orders.scores, orders.grades != NO_DOCUMENT, int(certain.sum()))
    return {
        UNCERTAIN: orders.uncertain,
        REVERSED: np.nan if later is None else _share(certain, later),
        CONTROL_REVERSED: np.nan if later is None else _share(control, later),
        CONTROL_WRONG: _share(control, orders.grades),
    }


def largest_differences(scores: np.ndarray, real: np.ndarray, n: int) -> np.ndarray:
    """Return the n orders of the largest score difference over all queries; [q, V], [q, V] -> [q, V, V]."""
    difference = scores[:, :, None].astype(np.float64) - scores[:, None, :]
    pair = (real[:, :, None] & real[:, None, :] & (difference > 0)).ravel()
    height = np.where(pair, difference.ravel(), -1.0)
    chosen = np.zeros(height.size, bool)
    chosen[np.argsort(-height, kind="stable")[:n]] = True
    return (chosen & pair).reshape(difference.shape)


def _share(orders: np.ndarray, values: np.ndarray) -> float:
    share = wrong_share(orders, values)
    return np.nan if share is None else share


def _unknown() -> dict[str, float]:
    return dict.fromkeys((UNCERTAIN, REVERSED, CONTROL_REVERSED, CONTROL_WRONG), np.nan)
