"""P²LinRank and PairRank: linear rankers refitted to every pair ever seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..objective import linear_gradient, linear_hessian, sigmoid
from . import lists
from .certain import outside_widths, unanimous
from .omega import told

STRIDES = 3


class _History:
    """x_ij of every pair, winner less loser, with its weight; and the fit."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        self.settings, self.rng = settings, rng
        self.x, self.weight = np.zeros((0, n_features)), np.zeros(0)
        self.gram = np.zeros((n_features, n_features))  # Σ w x xᵀ

    def remembers(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> bool:
        """Add the list's pairs; say whether there were any."""
        pairs = told(clicks, self.settings, self.rng)
        if pairs:
            new = np.array([x[shown[i]] - x[shown[j]] for i, j, _ in pairs], np.float64)
            weight = np.array([w for _, _, w in pairs])
            self.x, self.weight = np.vstack([self.x, new]), np.concatenate([self.weight, weight])
            self.gram = self.gram + (new.T * weight) @ new
        return bool(pairs)

    def fitted(self, theta: np.ndarray, noise_std: float = 0.0, loss: str = "cross-entropy") -> np.ndarray:
        """Return the weights fitted to all pairs, each perturbed anew (eq:linloss)."""
        noise = noise_std * self.rng.normal(size=len(self.weight)) / np.sqrt(self.weight)
        edge = noise_std * self.rng.normal(size=len(theta))
        return (self.newton if loss == "cross-entropy" else self.descended)(theta, noise, edge)

    def newton(self, theta: np.ndarray, noise: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """Return the minimiser of the perturbed cross-entropy."""
        l2 = self.settings["l2"]
        for _ in range(50):
            gradient = linear_gradient(theta, self.x, 1.0, l2, noise, self.weight, edge)
            step = np.linalg.solve(linear_hessian(theta, self.x, l2, self.weight), gradient)
            theta = theta - step
            if np.linalg.norm(step) <= 1e-4 * np.linalg.norm(theta):
                break
        return theta

    def descended(self, theta: np.ndarray, noise: np.ndarray, edge: np.ndarray) -> np.ndarray:
        """Return the weights after a few steps down the bounded symmetric loss, in the norm of its curvature bound."""
        l2 = self.settings["l2"]
        bound = l2 * np.eye(len(theta)) + self.gram / 4
        for _ in range(STRIDES):
            p = sigmoid(self.x @ theta)
            slope = 2 * self.weight * (1 - 2 * (1 + noise)) * p * (1 - p)
            theta = theta - 2 * np.linalg.solve(bound, self.x.T @ slope + l2 * theta - np.sqrt(l2) * edge)
        return theta


class P2LinRank(_History):
    """N linear rankers, each on clicks perturbed by noise of its own; explores where they disagree (alg:model)."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        super().__init__(n_features, settings, rng)
        self.thetas = [np.zeros(n_features) for _ in range(settings["n_rankers"])]

    def rank(self, x: np.ndarray, k: int) -> list[int]:
        certain = unanimous(np.array([x @ theta for theta in self.thetas]))
        return lists.topological(certain, k, self.rng, self.settings["floor"] if len(self.weight) else 0.0)

    def learn(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> None:
        if self.remembers(x, shown, clicks):
            s = self.settings
            self.thetas = [self.fitted(theta, s["noise_std"], s["loss"]) for theta in self.thetas]


class PairRank(_History):
    """One linear ranker; explores inside its confidence widths (eq:cb)."""

    def __init__(self, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> None:
        super().__init__(n_features, settings, rng)
        self.theta = np.zeros(n_features)

    def certain(self, x: np.ndarray) -> np.ndarray:
        a = self.gram + self.settings["l2"] * np.eye(x.shape[1])
        inverse = np.diag(1 / np.diag(a)) if self.settings["covariance"] == "diagonal" else np.linalg.inv(a)
        return outside_widths(x @ self.theta, x @ inverse @ x.T, self.settings["alpha"])

    def rank(self, x: np.ndarray, k: int) -> list[int]:
        return lists.topological(self.certain(x), k, self.rng)

    def learn(self, x: np.ndarray, shown: Sequence[int], clicks: Sequence[bool]) -> None:
        if self.remembers(x, shown, clicks):
            self.theta = self.fitted(self.theta)
