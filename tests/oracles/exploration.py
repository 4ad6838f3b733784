"""The cost of exploration from the whole list of impressions, as the definition has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Impression:
    """A list as shown, the best estimate's, each place's probability given those above it, and clicked documents."""

    shown: list[str]
    best: list[str]
    p: list[float]
    clicks: set[str]


def reciprocal_rank(documents: list[str], clicks: set[str]) -> float:
    places = [place for place, document in enumerate(documents, start=1) if document in clicks]
    return 1 / places[0] if places else 0.0


def weight(impression: Impression, share: float) -> float:
    """Return how many readers of the best estimate this one stands for: 0 where the lists differ above the click."""
    rank = reciprocal_rank(impression.shown, impression.clicks)
    if rank == 0:
        return 0.0
    place = round(1 / rank)
    if impression.shown[:place] != impression.best[:place]:
        return 0.0
    return float(1 / (share * np.prod(impression.p[:place]) + (1 - share)))


def cost(impressions: list[Impression], share: float = 1.0) -> tuple[float, float, float]:
    """Return the mean reciprocal ranks of best estimate and shown lists, and the standard error of their difference."""
    shown = np.array([reciprocal_rank(each.shown, each.clicks) for each in impressions])
    best = shown * np.array([weight(each, share) for each in impressions])
    return float(best.mean()), float(shown.mean()), float((best - shown).std() / np.sqrt(len(impressions)))
