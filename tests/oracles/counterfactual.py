"""Estimators of another ranker's value, list by list, and logs that hold every list as often as is to be expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import permutations, product
from math import prod

import numpy as np

List = tuple[int, ...]
Policy = Callable[[List, int], Fraction]  # probability of a document below those of a prefix
Clicks = Callable[[List, int], Fraction]  # probability of a click at a place of a list


def prefix_weight(target: list[float], logged: list[float], place: int) -> float:
    return prod(target[r] / logged[r] for r in range(place + 1))


def rips(rewards: np.ndarray, logged: np.ndarray, target: np.ndarray) -> float:
    """Return the mean over lists of Σ_r Π_{j ≤ r} target / logged · reward."""
    total = 0.0
    for i in range(len(rewards)):
        for r in range(rewards.shape[1]):
            total += prefix_weight(list(target[i]), list(logged[i]), r) * rewards[i, r]
    return total / len(rewards)


def ips(rewards: np.ndarray, logged: np.ndarray, target: np.ndarray) -> float:
    last = rewards.shape[1] - 1
    weights = [prefix_weight(list(target[i]), list(logged[i]), last) for i in range(len(rewards))]
    return float(np.mean([w * sum(rewards[i]) for i, w in enumerate(weights)]))


def iips(rewards: np.ndarray, logged: np.ndarray, target: np.ndarray) -> float:
    """Return the mean over lists of Σ_r target / logged · reward; both are marginal probabilities."""
    n, k = rewards.shape
    return sum(target[i, r] / logged[i, r] * rewards[i, r] for i in range(n) for r in range(k)) / n


def normalised(rewards: np.ndarray, weights: np.ndarray) -> float:
    """Return Σ_r (Σ_i w · reward) / (Σ_i w)."""
    n, k = rewards.shape
    found = 0.0
    for r in range(k):
        found += sum(weights[i, r] * rewards[i, r] for i in range(n)) / sum(weights[i, r] for i in range(n))
    return found


def cascade_doubly_robust(
    rewards: np.ndarray, logged: np.ndarray, target: np.ndarray, shown: np.ndarray, others: np.ndarray
) -> float:
    """Return the mean over lists of Σ_r w_r (reward − q(shown)) + w_{r−1} q(B's), as Kiyohara et al. (2022) have it."""
    total = 0.0
    for i in range(len(rewards)):
        above = 1.0
        for r in range(rewards.shape[1]):
            weight = prefix_weight(list(target[i]), list(logged[i]), r)
            total += weight * (rewards[i, r] - shown[i, r]) + above * others[i, r]
            above = weight
    return total / len(rewards)


def effective(weights: list[float]) -> float:
    return sum(weights) ** 2 / sum(w * w for w in weights)


def lists(n_documents: int, k: int) -> Iterator[List]:
    return permutations(range(n_documents), k)


def probability(policy: Policy, shown: List) -> Fraction:
    return prod((policy(shown[:r], document) for r, document in enumerate(shown)), start=Fraction(1))


def marginal(policy: Policy, n_documents: int, k: int, document: int, place: int) -> Fraction:
    every = (each for each in lists(n_documents, k) if each[place] == document)
    return sum((probability(policy, each) for each in every), start=Fraction(0))


def value(policy: Policy, clicks: Clicks, n_documents: int, k: int) -> float:
    """Return how many clicks a list of this policy gets on average."""
    every = lists(n_documents, k)
    return float(sum(probability(policy, each) * sum(clicks(each, r) for r in range(k)) for each in every))


def expected_log(
    policy: Policy, clicks: Clicks, n_documents: int, k: int, n: int
) -> list[tuple[List, tuple[int, ...]]]:
    """Return n lists with their clicks: each as often as is to be expected, which must be a whole number."""
    found = []
    for shown in lists(n_documents, k):
        for outcome in product((0, 1), repeat=k):
            chances = [clicks(shown, r) if hit else 1 - clicks(shown, r) for r, hit in enumerate(outcome)]
            times = n * probability(policy, shown) * prod(chances, start=Fraction(1))
            assert times.denominator == 1
            found += [(shown, outcome)] * int(times)
    return found
