"""Ω_t: the pairs that a list's clicks tell, with their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..preferences import all_pairs, examined_depth, independent_pairs, is_swap_symmetric

WeightedPair = tuple[int, int, float]  # places in the list: clicked, unclicked; weight


def told(clicks: Sequence[bool], settings: Mapping[str, Any], rng: np.random.Generator) -> list[WeightedPair]:
    """Return the pairs that these settings take from a list."""
    beyond = settings["examined_beyond"]
    if settings.get("pairs", "all") == "independent":
        n_clicked = sum(clicks)
        orders = rng.permutation(n_clicked), rng.permutation(examined_depth(clicks, beyond) - n_clicked)
        pairs = independent_pairs(clicks, beyond, *(order.tolist() for order in orders)) if n_clicked else []
    else:
        pairs = all_pairs(clicks, beyond)
    if settings.get("inclusion") == "symmetric":
        pairs = [pair for pair in pairs if is_swap_symmetric(clicks, pair, beyond)]
    if not pairs:
        return []
    winners, losers = zip(*pairs, strict=True)
    weight = 1.0 if settings.get("pairs") == "independent" else 1 / max(len(set(winners)), len(set(losers)))
    last = max(place for place, click in enumerate(clicks) if click)
    kappa = settings.get("beyond_weight", 1.0)
    return [(i, j, weight * (kappa if j > last else 1.0)) for i, j in pairs]
