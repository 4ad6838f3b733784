"""Logged lists: what each place earned, and how probable it was for the ranker that showed it and for the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from perturank.counterfactual.regression import Predictions
from perturank.errors import BadInput

Reward = Literal["first-click", "clicks", "dcg", "worth"]
REWARDS: tuple[Reward, ...] = get_args(Reward)
ROUNDING = 1e-5  # by which a logged probability may exceed 1: they are kept as float32 logarithms


def place_rewards(reward: Reward, worth: ArrayLike) -> np.ndarray:
    """Return what each place earned, from what its document was worth [n, k]; a list earns the sum; [n, k].

    `first-click` is the reciprocal rank of the first document of positive worth, `clicks` how many there are, `dcg`
    each divided by log2(1 + rank), and `worth` the worth itself.

    >>> place_rewards("first-click", [[0, 3, 1]]).tolist(), place_rewards("clicks", [[0, 3, 1]]).tolist()
    ([[0.0, 0.5, 0.0]], [[0.0, 1.0, 1.0]])
    """
    values = np.asarray(worth, np.float64)
    clicked, rank = values > 0, np.arange(1, values.shape[1] + 1)
    match reward:
        case "first-click":
            return (clicked & (np.cumsum(clicked, axis=1) == 1)) / rank
        case "clicks":
            return clicked.astype(np.float64)
        case "dcg":
            return clicked / np.log2(1 + rank)
        case "worth":
            return values


@dataclass(frozen=True)
class LoggedLists:
    """n lists of at most k places that A showed, and B, whose value is asked for.

    A shorter list is filled up with places that earn 0 and have probability 1 for both.
    """

    rewards: np.ndarray  # [n, k]
    logged: np.ndarray  # [n, k] probability, for A, of the document at each place given those above it
    target: np.ndarray  # [n, k] the same for B; 0 or 1 if B does not explore
    reach: np.ndarray | None = None  # [n, k] probability that A begins its list with the first r documents of B's
    logged_marginal: np.ndarray | None = None  # [n, k] probability that A shows the document at this place
    target_marginal: np.ndarray | None = None  # [n, k] the same for B
    marginal_reach: np.ndarray | None = None  # [n, k] probability that A shows B's document of each place there
    predictions: Predictions | None = None  # of the rewards, by a regression

    def __init__(
        self,
        rewards: ArrayLike,
        logged: ArrayLike,
        target: ArrayLike,
        *,
        reach: ArrayLike | None = None,
        logged_marginal: ArrayLike | None = None,
        target_marginal: ArrayLike | None = None,
        marginal_reach: ArrayLike | None = None,
        predictions: Predictions | None = None,
    ) -> None:
        found = np.asarray(rewards, np.float64)
        if found.ndim != 2 or not found.size:
            raise BadInput(f"the rewards have shape {found.shape}", "give one row a list and one column a place")
        given = {
            "logged": logged,
            "target": target,
            "reach": reach,
            "logged_marginal": logged_marginal,
            "target_marginal": target_marginal,
            "marginal_reach": marginal_reach,
        }
        object.__setattr__(self, "rewards", found)
        object.__setattr__(self, "predictions", predictions)
        for name, values in given.items():
            object.__setattr__(self, name, None if values is None else _probabilities(name, values, found.shape))
        if not (self.logged > 0).all():
            raise BadInput("a logged place has probability 0", "nobody can have shown it")

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def has_marginals(self) -> bool:
        """Whether the probabilities of documents at places are known, whatever stands above them."""
        return self.logged_marginal is not None and self.target_marginal is not None

    @property
    def stakes(self) -> np.ndarray:
        """The share of all rewards that each place earned, by which its support counts; equal if all are 0; [k]."""
        earned = np.abs(self.rewards).mean(axis=0)
        return earned / earned.sum() if earned.any() else np.full(len(earned), 1 / len(earned))


def _probabilities(name: str, values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    found = np.asarray(values, np.float64)
    if found.shape != shape:
        raise BadInput(f"{name} has shape {found.shape}", f"the rewards have {shape}")
    if not ((found >= 0) & (found <= 1 + ROUNDING)).all():
        raise BadInput(f"{name} is not between 0 and 1", "give probabilities, not their logarithms")
    return found
