"""Updates of the rivals: PDGD (Oosterhuis & de Rijke 2018), DBGD, MGD, and a step on pairs for ε-greedy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .objective import sigmoid

Pair = tuple[int, int]  # places in the list: clicked, unclicked


def plackett_luce(scores: Sequence[float] | np.ndarray, shown: Sequence[int]) -> float:
    """Return the probability of a top-k list over all candidates."""
    p = 1.0
    for place, document in enumerate(shown):
        left = [d for d in range(len(scores)) if d not in shown[:place]]
        p *= float(np.exp(scores[document]) / sum(np.exp(scores[d]) for d in left))
    return p


def pdgd_rho(scores: Sequence[float] | np.ndarray, shown: Sequence[int], pair: Pair) -> float:
    """Return ρ = P(R*) / (P(R) + P(R*)), R* being the list with the two documents exchanged."""
    exchanged = list(shown)
    exchanged[pair[0]], exchanged[pair[1]] = shown[pair[1]], shown[pair[0]]
    p, p_exchanged = plackett_luce(scores, shown), plackett_luce(scores, exchanged)
    return p_exchanged / (p + p_exchanged)


def pdgd_gradient(
    scores: Sequence[float] | np.ndarray, jacobian: np.ndarray, shown: Sequence[int], pairs: Sequence[Pair]
) -> np.ndarray:
    """Return Σ ρ e^{f_k} e^{f_l} / (e^{f_k} + e^{f_l})² (f'_k − f'_l), to be added; jacobian [V, p] -> [p]."""
    total = np.zeros(jacobian.shape[1])
    for pair in pairs:
        k, l = shown[pair[0]], shown[pair[1]]  # noqa: E741
        ek, el = np.exp(scores[k]), np.exp(scores[l])
        total = total + pdgd_rho(scores, shown, pair) * ek * el / (ek + el) ** 2 * (jacobian[k] - jacobian[l])
    return total


def team_clicks(clicks: Sequence[bool], teams: Sequence[int], n_teams: int) -> list[int]:
    """Return how many clicks each team's documents got; team 0 is the current ranker."""
    return [sum(bool(click) and team == n for click, team in zip(clicks, teams, strict=True)) for n in range(n_teams)]


def dbgd(
    theta: np.ndarray, direction: np.ndarray, clicks: Sequence[bool], teams: Sequence[int], rate: float
) -> np.ndarray:
    """Return θ + η u if the candidate (team 1) got more clicks than the current ranker, else θ."""
    current, candidate = team_clicks(clicks, teams, 2)
    return theta + rate * direction if candidate > current else theta


def mgd(
    theta: np.ndarray, directions: np.ndarray, clicks: Sequence[bool], teams: Sequence[int], rate: float
) -> np.ndarray:
    """Return θ + η times the mean direction of all candidates (team n + 1: direction n) that beat the current one."""
    current, *candidates = team_clicks(clicks, teams, len(directions) + 1)
    winners = [direction for direction, won in zip(directions, candidates, strict=True) if won > current]
    return theta + rate * np.mean(winners, axis=0) if winners else theta


def pairwise_step(scores: np.ndarray, jacobian: np.ndarray, pairs: Sequence[Pair], rate: float) -> np.ndarray:
    """Return the step −η ∇ of eq:loss without regulariser over (preferred, other) documents; [V, p] -> [p]."""
    total = np.zeros(jacobian.shape[1])
    for winner, loser in pairs:
        total = total + (1 - sigmoid(scores[winner] - scores[loser])) * (jacobian[winner] - jacobian[loser])
    return rate * total
