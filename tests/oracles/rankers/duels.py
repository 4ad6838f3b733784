"""DBGD and MGD: the list of the ranker is interleaved with those of random neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..updates import dbgd, mgd
from . import lists
from .scorers import scorer


class Duelling:
    """Moves towards the neighbours whose documents get more clicks than its own."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        self.settings, self.rng, self.f = settings, rng, scorer(n_features, settings, rng)
        self.directions = np.zeros((0, len(self.f.theta)))
        self.teams: list[int] = []

    def rank(self, x: np.ndarray, k: int) -> list[int]:
        drawn = self.rng.normal(size=(self.settings["n_candidates"], len(self.f.theta)))
        self.directions = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        scores = [self.f.scores(x)]
        for direction in self.directions:
            scores.append(self.f.scores_at(self.f.theta + self.settings["step"] * direction, x))
        shown, self.teams = lists.team_draft([lists.best_first(s, self.rng) for s in scores], k, self.rng)
        return shown

    def learn(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> None:
        rate = self.settings["learning_rate"]
        if len(self.directions) == 1:
            self.f.theta = dbgd(self.f.theta, self.directions[0], clicks, self.teams, rate)
        else:
            self.f.theta = mgd(self.f.theta, self.directions, clicks, self.teams, rate)
