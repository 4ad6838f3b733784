"""Data with a known linear truth θ*: scores f*(x) = xᵀθ*, bounded norms and a gap Δ_min between documents.

These are the theorem's assumptions on the data. Its assumption on clicks, that i is preferred to j with
probability σ(f*_i - f*_j) (prop:pairwise), is about users: `preferences` users obey it. Users who see
grades do not: to them, documents of one grade are equal whatever their scores.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from perturank.datasets.dataset import Dataset
from perturank.datasets.fold import Fold
from perturank.errors import BadInput

Floats = NDArray[np.float64]

DIMENSION = 10
DELTA_MIN = 0.02
NORM = 8.0  # ‖θ*‖, the paper's Q; documents lie in the unit ball, P = 1
SHORTEST, LONGEST = 10, 30
GRADE_SHARES = (0.4, 0.25, 0.15, 0.1, 0.1)
EDGE = 0.95  # scores reach this share of ±Q, which leaves room for the other directions
SLACK = 1e-4  # keeps the promised gap through the rounding to float32


def linear(n_queries: int = 300, seed: int = 0, *, d: int = DIMENSION, delta_min: float = DELTA_MIN) -> Fold:
    """Return data with scores f(x) = xᵀθ* and the fold's `theta_star`; features stay as they are.

    All documents lie in the unit ball, ‖θ*‖ = 8, grades never contradict the order of f, and any
    two documents of a query differ by |sigmoid(f_i - f_j) - 1/2| >= delta_min, the paper's Δ_min.
    """
    if d < 2:
        raise BadInput(f"d is {d}", "a linear truth needs 2 features or more")
    gap = _gap(delta_min)
    world, *streams = np.random.SeedSequence(seed).spawn(4)
    direction = np.random.default_rng(world).normal(size=d)
    theta = direction * (NORM / np.linalg.norm(direction))
    held_out = max(10, n_queries // 3)
    train, validation, test = (
        _split(split, size, theta, gap, np.random.default_rng(stream))
        for split, size, stream in zip(
            ("train", "validation", "test"), (n_queries, held_out, held_out), streams, strict=True
        )
    )
    return Fold("synthetic-linear", 1, 1, train, validation, test, len(GRADE_SHARES), theta)


def _gap(delta_min: float) -> float:
    """Return the difference of scores at which the sigmoid is delta_min above a half."""
    room = 2 * EDGE * NORM / LONGEST
    most = 1 / (1 + math.exp(-room)) - 0.5
    if not 0 < delta_min <= most:
        raise BadInput(f"delta_min is {delta_min}", f"{LONGEST} documents fit for 0 < delta_min <= {most:.3f}")
    return math.log((0.5 + delta_min) / (0.5 - delta_min)) + SLACK


def _split(split: str, n_queries: int, theta: Floats, gap: float, rng: Generator) -> Dataset:
    lengths = rng.integers(SHORTEST, LONGEST + 1, n_queries)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    scores = np.concatenate([_spaced(rng, int(n), gap) for n in lengths])
    # Scores are nearly uniform on ±EDGE·Q, so these cuts are the quantiles of their law.
    cuts = EDGE * NORM * (2 * np.cumsum(GRADE_SHARES)[:-1] - 1)
    features = _documents(rng, scores, theta).astype(np.float32)
    # Graded by the score of the rounded features: labels agree with what a ranker can compute.
    labels = np.searchsorted(cuts, features.astype(np.float64) @ theta).astype(np.int8)
    qids = np.array([f"{split}-{i}" for i in range(n_queries)])
    return Dataset(f"synthetic-linear {split}", features, labels, offsets, qids)


def _spaced(rng: Generator, n: int, gap: float) -> Floats:
    """Return n scores in random order, no two closer than gap: uniform given that."""
    free = 2 * EDGE * NORM - (n - 1) * gap
    ordered = np.sort(rng.uniform(0, free, n)) + gap * np.arange(n) - EDGE * NORM
    return rng.permutation(ordered)


def _documents(rng: Generator, scores: Floats, theta: Floats) -> Floats:
    """Return points of the unit ball with these scores: along θ*, plus anything orthogonal to it."""
    along = scores / NORM
    unit = theta / NORM
    across = rng.normal(size=(len(scores), len(theta)))
    across -= (across @ unit)[:, None] * unit
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    radius = np.sqrt(1 - along**2) * rng.uniform(0, 1 - SLACK, len(scores))
    return along[:, None] * unit + radius[:, None] * across
