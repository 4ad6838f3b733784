"""P²HeadRank: one network, whose last layer carries the noise of the clicks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..objective import sigmoid
from . import lists
from .certain import unanimous
from .network_history import Adam, History, slope
from .scorers import Network

RENEWAL, RENEWED_EVERY = 1 / 8, 4  # of the means over pairs, by a step's sample that is not all of them


class LastLayer:
    """f(x) = z(x)·v, z(x) being the last hidden layer of a network and, with a shortcut, its inputs.

    The inputs are the features, after a constant 1 if the network has a bias. With `l2_document` a score is z(x)·v + r,
    r being a number of the document's own.
    """

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        n_features += settings["bias"]
        self.f, self.settings = Network.drawn(n_features, settings["widths"], rng), settings
        self.start, self.m = self.f.theta.copy(), settings["widths"][-1]
        self.adam = Adam(len(self.start) - self.m, settings["learning_rate"])
        self.residuals: dict[bytes, float] = {}
        n_direct = n_features if settings["shortcut"] else 0
        self.v = np.zeros(self.m + n_direct)
        self.pulls = np.array([settings["l2_output"]] * self.m + [settings["l2"]] * n_direct)  # Λ

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Return z(x); [V, d] -> [V, D]."""
        x = self.seen(x)
        hidden = self.f.last_hidden(self.f.theta, x)
        return np.hstack([hidden, x]) if self.settings["shortcut"] else hidden

    def seen(self, x: np.ndarray) -> np.ndarray:
        return np.insert(x, 0, 1.0, axis=1) if self.settings["bias"] else x

    def scores(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.inputs(x) @ self.v) + [self.residuals.get(row.tobytes(), 0.0) for row in x.astype(float)]

    def step(
        self,
        winners: np.ndarray,
        losers: np.ndarray,
        weight: np.ndarray,
        bound: np.ndarray,
        trust: float,
        repeated: float,
        occurrences: Mapping[bytes, float],
    ) -> None:
        """Take a step of Adam in the hidden layers and a Newton step in v, in the norm of `bound`; both at once.

        The residuals take theirs with them; `occurrences` is the weight of all pairs in which a document is.
        """
        z = self.inputs(winners) - self.inputs(losers)
        r = slope(self.scores(winners) - self.scores(losers), weight, 0.0, self.settings["loss"])
        if self.settings["l2_document"] is not None:
            l2 = repeated * self.settings["l2_document"]
            pulled = {row: l2 * self.residuals.get(row, 0.0) for row in occurrences}
            for winner, loser, each in zip(winners, losers, r, strict=True):
                pulled[winner.tobytes()] += each
                pulled[loser.tobytes()] -= each
            for row, pull in pulled.items():
                self.residuals[row] = self.residuals.get(row, 0.0) - trust * pull / (occurrences[row] + l2)
        hidden, start = self.f.theta[: -self.m], self.start[: -self.m]
        gradient = (self.f.gradient(self.seen(winners), r) - self.f.gradient(self.seen(losers), r))[: -self.m]
        hidden = hidden + self.adam.step(gradient + repeated * self.settings["l2_hidden"] * (hidden - start))
        self.v = self.v - trust * np.linalg.solve(bound, z.T @ r + repeated * self.pulls * self.v)
        self.f.theta = np.concatenate([hidden, self.v[: self.m]])


class P2HeadRank(History):
    """One network with heads f ± z·Δ, where Δ ~ N(0, ν² H⁻¹AH⁻¹); explores where they disagree."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        super().__init__(n_features, settings, rng)
        self.network = LastLayer(n_features, settings, rng)
        n = len(self.network.v)
        self.gram, self.bend = np.zeros((n, n)), np.zeros((n, n))  # means of z zᵀ and σ'(f) z zᵀ over pairs
        self.bound, self.delta = np.eye(n), np.zeros((n, settings["n_rankers"] // 2))
        self.n_steps = 0

    def rank(self, x: np.ndarray, k: int) -> list[int]:
        f, spread = self.network.scores(x)[:, None], self.network.inputs(x) @ self.delta
        certain = unanimous(np.hstack([f + spread, f - spread]).T)
        return lists.topological(certain, k, self.rng, self.floor())

    def learn(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> None:
        newest = self.added(x, shown, clicks)
        if len(newest):
            renewed = [self.fit(len(newest)) for _ in range(self.settings["n_steps"])]
            if any(renewed):
                self.delta = self.moves()

    def fit(self, n_newest: int) -> bool:
        """Take one step on the round's pairs; say whether it renewed the means."""
        rows, scale = self.sample(n_newest)
        winners, losers, weight = self.winners[rows], self.losers[rows], scale * self.weight[rows]
        is_whole, n, total = len(rows) == len(self.weight), len(self.weight), self.weight.sum()
        z = self.network.inputs(winners) - self.network.inputs(losers)
        p = sigmoid(self.network.scores(winners) - self.network.scores(losers))
        renewal = 1.0 if is_whole else RENEWAL
        renews = is_whole or self.n_steps % RENEWED_EVERY == 0
        if renews:
            self.gram = (1 - renewal) * self.gram + renewal * (z.T * weight) @ z / total
            self.bend = (1 - renewal) * self.bend + renewal * (z.T * (weight * p * (1 - p))) @ z / total
            self.bound = total / 4 * self.gram + self.repeated() * np.diag(self.network.pulls)
        trust = 1.0 if is_whole else min(self.settings["budget"] / n, 1.0)
        self.network.step(winners, losers, weight, self.bound, trust, self.repeated(), self.occurrences())
        self.n_steps += 1
        return renews

    def occurrences(self) -> dict[bytes, float]:
        """Return the weight of all pairs in which each document is."""
        total: dict[bytes, float] = {}
        for winner, loser, weight in zip(self.winners, self.losers, self.weight, strict=True):
            for row in (winner.tobytes(), loser.tobytes()):
                total[row] = total.get(row, 0.0) + weight
        return total

    def repeated(self) -> float:
        """Return the factor on every λ: the mean weight of a distinct pair over `new_weight`, at least 1."""
        ends = zip(self.winners, self.losers, strict=True)
        pairs = {frozenset((winner.tobytes(), loser.tobytes())) for winner, loser in ends}
        return max(1.0, float(self.weight.sum()) / len(pairs) / self.settings["new_weight"])

    def moves(self) -> np.ndarray:
        """Return Δ = ν_t H⁻¹ C g of every pair of heads, with C Cᵀ = A; [D, N / 2]."""
        s, total, pulls = self.settings, self.weight.sum(), self.repeated() * np.diag(self.network.pulls)
        noise_std = s["noise_std"] * (1 + (s["early_noise"] - 1) / (1 + total / s["early_weight"]))
        root = np.linalg.cholesky(total * self.gram + pulls)
        g = self.rng.normal(size=self.delta.shape)
        return np.asarray(noise_std * np.linalg.solve(total * self.bend + pulls, root @ g))
