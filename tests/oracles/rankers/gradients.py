"""Rankers that take one gradient step a round and keep no history: PDGD, ε-greedy, and the one that learns nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..objective import sigmoid
from ..preferences import all_pairs
from . import lists
from .scorers import scorer


class Uniform:
    """Random lists."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        self.rng = rng

    def rank(self, x: np.ndarray, k: int) -> list[int]:
        shown: list[int] = self.rng.permutation(len(x))[:k].tolist()
        return shown

    def learn(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> None:
        pass


class EpsilonGreedy:
    """The best list but for random places; one step on the cross-entropy of the list's pairs."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        self.settings, self.rng, self.f = settings, rng, scorer(n_features, settings, rng)

    def rank(self, x: np.ndarray, k: int) -> list[int]:
        return lists.epsilon_greedy(self.f.scores(x), k, self.settings["epsilon"], self.rng)

    def learn(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> None:
        rows = x[list(shown)]
        scores, pull = self.f.scores(rows), np.zeros(len(shown))
        for i, j in all_pairs(clicks, self.settings["examined_beyond"]):
            strength = 1 - sigmoid(scores[i] - scores[j])
            pull[i] += strength
            pull[j] -= strength
        self.f.theta = self.f.theta + self.settings["learning_rate"] * self.f.gradient(rows, pull)


class PDGD:
    """Plackett–Luce lists and the debiased gradient of every inferred preference (Oosterhuis & de Rijke 2018)."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        self.settings, self.rng, self.f = settings, rng, scorer(n_features, settings, rng)
        self.rate = settings["learning_rate"]

    def rank(self, x: np.ndarray, k: int) -> list[int]:
        return lists.plackett_luce(self.f.scores(x), k, self.rng)

    def learn(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> None:
        scores, pull = self.f.scores(x), np.zeros(len(shown))
        pairs = all_pairs(clicks, self.settings["examined_beyond"])
        for i, j in pairs:
            p = sigmoid(scores[shown[i]] - scores[shown[j]])
            strength = reversal(scores, shown, i, j) * p * (1 - p)
            pull[i] += strength
            pull[j] -= strength
        if pairs:
            self.f.theta = self.f.theta + self.rate * self.f.gradient(x[list(shown)], pull)
            self.rate *= self.settings["decay"]


def reversal(scores: np.ndarray, shown: Sequence[int], i: int, j: int) -> float:
    """Return ρ = P(R*) / (P(R) + P(R*)), R* being the list with places i and j exchanged."""
    exchanged = list(shown)
    exchanged[i], exchanged[j] = shown[j], shown[i]
    return float(1 / (1 + np.exp(log_probability(scores, shown) - log_probability(scores, exchanged))))


def log_probability(scores: np.ndarray, shown: Sequence[int]) -> float:
    """Return the log-probability of a Plackett–Luce list."""
    odds = np.exp(scores - scores.max())
    chosen = odds[list(shown)]
    left = odds.sum() - np.concatenate([[0.0], np.cumsum(chosen)[:-1]])
    return float(np.sum(np.log(chosen) - np.log(left)))
