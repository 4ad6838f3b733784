"""P²NeurRank and olRankNet: networks that take a few Adam steps a round on every pair ever seen, or on a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..objective import sigmoid
from . import lists
from .certain import outside_widths, unanimous
from .omega import told
from .scorers import Network


class Adam:
    """The running means of a gradient and its square."""

    def __init__(self, n_parameters: int, learning_rate: float) -> None:
        self.mean, self.square, self.n, self.rate = np.zeros(n_parameters), np.zeros(n_parameters), 0, learning_rate

    def step(self, gradient: np.ndarray) -> np.ndarray:
        """Return the step against this gradient."""
        self.n += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean, square = self.mean / (1 - 0.9**self.n), self.square / (1 - 0.999**self.n)
        return np.asarray(-self.rate * mean / (np.sqrt(square) + 1e-8))


def slope(f: np.ndarray, weight: np.ndarray, noise: np.ndarray | float, loss: str) -> np.ndarray:
    """Return ∂loss/∂f of pairs whose winner is f ahead: eq:obj, the bounded symmetric loss, or a mean of the two."""
    if loss == "mixed":
        return 0.2 * slope(f, weight, noise, "cross-entropy") + 0.8 * slope(f, weight, noise, "symmetric")
    p = sigmoid(f)
    if loss == "cross-entropy":
        return np.asarray(weight * (p - 1 - noise))
    return np.asarray(2 * weight * (1 - 2 * (1 + noise)) * p * (1 - p))


class Trained:
    """A network with its start θ₀ and Adam's state."""

    def __init__(self, network: Network, settings: Mapping[str, Any]) -> None:
        self.f, self.start, self.settings = network, network.theta.copy(), settings
        self.adam = Adam(len(self.start), settings["learning_rate"])

    def scores(self, x: np.ndarray) -> np.ndarray:
        if self.settings["start"] == "centred":
            return self.f.scores(x) - self.f.scores_at(self.start, x)
        return self.f.scores(x)

    def step(self, winners: np.ndarray, losers: np.ndarray, weight: np.ndarray, noise: np.ndarray) -> None:
        """Take one step of Adam on these pairs and mλ/2 ‖θ − θ₀‖² (eq:obj)."""
        f = self.scores(winners) - self.scores(losers)
        r = slope(f, weight, noise, self.settings.get("loss", "cross-entropy"))
        pull = self.settings["widths"][-1] * self.settings["l2"] * (self.f.theta - self.start)
        gradient = self.f.gradient(winners, r) - self.f.gradient(losers, r) + pull
        self.f.theta = self.f.theta + self.adam.step(gradient)


class History:
    """The two documents of every pair, and its weight."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        self.settings, self.rng = settings, rng
        self.winners, self.losers, self.weight = np.zeros((0, n_features)), np.zeros((0, n_features)), np.zeros(0)

    def remember(self, winners: np.ndarray, losers: np.ndarray, weight: np.ndarray) -> None:
        """Add these pairs."""
        self.winners, self.losers = np.vstack([self.winners, winners]), np.vstack([self.losers, losers])
        self.weight = np.concatenate([self.weight, weight])

    def added(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> np.ndarray:
        """Return the differences' ends (winner, loser, weight) [q, 3] of the list's pairs, after adding them."""
        pairs = np.array(told(clicks, self.settings, self.rng)).reshape(-1, 3)
        if len(pairs):
            ends = np.asarray(shown)[pairs[:, :2].astype(int)]
            self.remember(x[ends[:, 0]], x[ends[:, 1]], pairs[:, 2])
        return pairs

    def sample(self, n_newest: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of a step and how often each counts: all, or the newest and a sample of all others."""
        n, budget = len(self.weight), self.settings["budget"]
        room = n if budget is None else max(budget - n_newest, 1)
        if n - n_newest <= room:
            return np.arange(n), np.ones(n)
        rows = np.concatenate([np.arange(n - n_newest, n), self.rng.integers(n - n_newest, size=room)])
        return rows, np.concatenate([np.ones(n_newest), np.full(room, (n - n_newest) / room)])

    def train(self, network: Trained, n_newest: int, noise_std: float = 0.0) -> None:
        """Take the round's steps."""
        noise = noise_std * self.rng.normal(size=len(self.weight)) / np.sqrt(self.weight)
        for _ in range(self.settings["n_steps"]):
            rows, scale = self.sample(n_newest)
            network.step(self.winners[rows], self.losers[rows], scale * self.weight[rows], noise[rows])

    def floor(self) -> float:
        """Return the share of places that any document may take: none before the first click."""
        return float(self.settings["floor"]) if len(self.weight) else 0.0


class P2NeurRank(History):
    """N networks, each on clicks perturbed by noise of its own; explores where they disagree (alg:model)."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        super().__init__(n_features, settings, rng)
        self.networks = [
            Trained(Network.drawn(n_features, settings["widths"], rng, settings["start"]), settings)
            for _ in range(settings["n_rankers"])
        ]

    def rank(self, x: np.ndarray, k: int) -> list[int]:
        certain = unanimous(np.array([network.scores(x) for network in self.networks]))
        return lists.topological(certain, k, self.rng, self.floor())

    def learn(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> None:
        newest = self.added(x, shown, clicks)
        if len(newest):
            for network in self.networks:
                self.train(network, len(newest), self.settings["noise_std"])


class OlRankNet(History):
    """One network; explores inside its confidence widths, with A inverted whenever it changes (eq:cb, lemma_CI)."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        super().__init__(n_features, settings, rng)
        self.network = Trained(Network.drawn(n_features, settings["widths"], rng, settings["start"]), settings)
        p = len(self.network.start)
        self.diagonal = settings["covariance"] == "diagonal"
        self.a = np.full(p, settings["l2"]) if self.diagonal else settings["l2"] * np.eye(p)
        self.inverse = 1 / self.a if self.diagonal else np.eye(p) / settings["l2"]

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return g(x; θ)/√m; [V, p]."""
        return self.network.f.jacobian(x) / np.sqrt(self.settings["widths"][-1])

    def certain(self, x: np.ndarray) -> np.ndarray:
        g = self.gradients(x)
        kernel = (g * self.inverse) @ g.T if self.diagonal else g @ self.inverse @ g.T
        return outside_widths(self.network.scores(x), kernel, self.settings["alpha"])

    def rank(self, x: np.ndarray, k: int) -> list[int]:
        return lists.topological(self.certain(x), k, self.rng)

    def learn(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> None:
        newest = self.added(x, shown, clicks)
        if not len(newest):
            return
        g = self.gradients(x[list(shown)])
        new = np.sqrt(newest[:, 2:]) * (g[newest[:, 0].astype(int)] - g[newest[:, 1].astype(int)])
        if self.diagonal:
            self.a = self.a + np.sum(new**2, axis=0)
            self.inverse = 1 / self.a
        else:
            self.a = self.a + new.T @ new
            self.inverse = np.linalg.inv(self.a)
        self.train(self.network, len(newest))
