"""The paper's grids of hyper-parameters, and wider ones."""

from __future__ import annotations

import itertools
from typing import Any

from perturank.experiments.experiment import Arm, Grid

REGULARISATION = (1e-1, 1e-2, 1e-3, 1e-4)  # λ
EXPLORATION = (1e-1, 1e-2, 1e-3, 1e-4)  # α
RATES = (1e-1, 1e-2, 1e-3)  # η
WIDE_REGULARISATION = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)

# Nobody disagrees: every order is certain, and none is explored. Heads come in pairs, which without noise are one.
GREEDY = {"noise_std": 0.0, "n_rankers": 1, "floor": 0.0}
GREEDY_HEADS = {"noise_std": 0.0, "floor": 0.0}

RATE: Grid = {"learning_rate": RATES}
PAIRWISE: Grid = {"l2": REGULARISATION, "alpha": EXPLORATION}
PERTURBED: Grid = {"l2": REGULARISATION}
WIDE: Grid = {"l2": WIDE_REGULARISATION}


def points(grid: Grid) -> list[dict[str, Any]]:
    """Return all combinations.

    >>> points({"a": (1, 2), "b": (3,)})
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def searches(arm: Arm, grid: str) -> dict[str, list[dict[str, Any]]]:
    """Return the arm's curves: label -> the settings among which the validation queries choose."""
    if grid == "none" or not arm.grid:
        return {arm.label: [{}]}
    found = {arm.label: points(arm.grid)}
    if grid == "wide" and arm.wide:
        found[f"{arm.label}, wider grid"] = points({**arm.grid, **arm.wide})
    return found
