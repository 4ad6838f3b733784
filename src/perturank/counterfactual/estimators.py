"""Estimators of the value of a ranker B on lists of a ranker A, each with what it assumes and when it is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from perturank.counterfactual import intervals, support
from perturank.counterfactual.lists import LoggedLists
from perturank.counterfactual.support import Support
from perturank.errors import BadInput

CASCADE = "What people do at a place depends on its document and those above it, not on those below."
ITEM_POSITION = "What people do at a place depends on its document and the place alone."
NOTHING = "Nothing is assumed of people: only lists that B would show count, as wholes."
NORMALISED = "Weights are divided by their mean: less noise, for a small bias."


class Interval(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """What B would have earned with a list, and how much more than A did; None where it is refused."""

    estimator: str
    value: float | None
    low: float | None
    high: float | None
    gain: Interval | None  # over what A earned on the same lists
    support: float | None  # the share of what B shows that A could have shown; None: it needs none
    effective: float  # lists
    refusal: str
    assumes: str


class _Moments(NamedTuple):
    """An estimate as a mean: its value, and each list's deviation from it [n].

    A ratio has also its pull [n] and the least and the most that lists earned: see `intervals.of_ratio`.
    """

    value: float
    deviations: np.ndarray
    pull: np.ndarray | None = None
    ends: tuple[float, float] = (0.0, 0.0)

    def interval(self) -> Interval:
        if self.pull is None:
            return Interval(self.value, *intervals.of_mean(self.value, self.deviations))
        return Interval(self.value, *intervals.of_ratio(self.value, self.deviations, self.pull, self.ends))

    def less(self, earned: np.ndarray) -> _Moments:
        """Return the difference to the mean of what the same lists earned [n]."""
        mean = float(earned.mean())
        ends = self.ends[0] - mean, self.ends[1] - mean
        return _Moments(self.value - mean, self.deviations - (earned - mean), self.pull, ends)


def prefix_weights(lists: LoggedLists) -> np.ndarray:
    """Return how much more probable B makes each list down to each place than A does; [n, k]."""
    return np.cumprod(lists.target / lists.logged, axis=1)


def list_weights(lists: LoggedLists) -> np.ndarray:
    """Return how much more probable B makes each whole list, for each of its places; [n, k]."""
    return np.repeat(prefix_weights(lists)[:, -1:], lists.rewards.shape[1], axis=1)


def item_weights(lists: LoggedLists) -> np.ndarray:
    """Return how much more often B shows each document at its place, whatever stands above; [n, k]."""
    if lists.logged_marginal is None or lists.target_marginal is None:
        raise BadInput(
            "the marginal probabilities of documents at places are not known", "give them, or leave iips out"
        )
    return np.divide(
        lists.target_marginal,
        lists.logged_marginal,
        out=np.zeros_like(lists.target_marginal),
        where=lists.logged_marginal > 0,
    )


def _weighted(lists: LoggedLists, weights: np.ndarray) -> _Moments:
    """Return the mean of Σ_r weight · reward."""
    return _mean((weights * lists.rewards).sum(axis=1))


def _mean(values: np.ndarray) -> _Moments:
    return _Moments(float(values.mean()), values - values.mean())


def _normalised(lists: LoggedLists, weights: np.ndarray) -> _Moments:
    """Return Σ_r (Σ_i weight · reward) / (Σ_i weight), place by place; a place without any weight earns nothing."""
    mean = weights.mean(axis=0)
    shares = np.divide(weights, mean, out=np.zeros_like(weights), where=mean > 0)
    values = (shares * lists.rewards).mean(axis=0)
    by_place = shares * (lists.rewards - values)
    deviations = by_place.sum(axis=1)
    # The direction in which the values of the places move together when their sum does.
    moves = by_place.T @ deviations
    moves = moves / moves.sum() if moves.sum() > 0 else lists.stakes
    earned = lists.rewards.sum(axis=1)
    return _Moments(float(values.sum()), deviations, shares @ moves, (float(earned.min()), float(earned.max())))


def _doubly_robust(lists: LoggedLists, weights: np.ndarray) -> _Moments:
    """Return the mean of Σ_r w_1..r (reward_r − q(shown)) + w_1..r−1 q(B's), q being the reward from place r on."""
    if lists.predictions is None:
        raise BadInput("the rewards are not predicted", "give predictions, or leave cdr and dm out")
    expected = lists.predictions
    above = np.column_stack([np.ones(len(lists)), weights[:, :-1]])
    return _mean((weights * (lists.rewards - expected.shown) + above * expected.target).sum(axis=1))


def _direct(lists: LoggedLists, weights: np.ndarray) -> _Moments:
    """Return the mean of what the regression expects B's list to earn."""
    if lists.predictions is None:
        raise BadInput("the rewards are not predicted", "give predictions, or leave cdr and dm out")
    return _mean(lists.predictions.direct.sum(axis=1))


@dataclass(frozen=True)
class Estimator:
    """An estimator: its weights, what it makes of them, and what it assumes."""

    name: str
    weights: Callable[[LoggedLists], np.ndarray]
    moments: Callable[[LoggedLists, np.ndarray], _Moments]
    assumes: str
    needs_support: bool = True

    @property
    def needs_marginals(self) -> bool:
        """Whether it needs the probabilities of documents at places."""
        return self.weights is item_weights

    @property
    def needs_predictions(self) -> bool:
        """Whether it needs a regression of the rewards."""
        return self.moments in (_doubly_robust, _direct)


ESTIMATORS: dict[str, Estimator] = {
    each.name: each
    for each in (
        Estimator("ips", list_weights, _weighted, NOTHING),
        Estimator("snips", list_weights, _normalised, f"{NOTHING} {NORMALISED}"),
        Estimator("rips", prefix_weights, _weighted, CASCADE),
        Estimator("snrips", prefix_weights, _normalised, f"{CASCADE} {NORMALISED}"),
        Estimator("iips", item_weights, _weighted, ITEM_POSITION),
        Estimator("sniips", item_weights, _normalised, f"{ITEM_POSITION} {NORMALISED}"),
        Estimator("cdr", prefix_weights, _doubly_robust, f"{CASCADE} A regression of rewards takes noise away."),
        Estimator("dm", prefix_weights, _direct, "A linear regression of rewards on features is right.", False),
    )
}


def evaluate(lists: LoggedLists, names: Sequence[str] | None = None) -> dict[str, Estimate]:
    """Return the estimates of B's value by these estimators; by default all that the lists have what it takes for."""
    wanted = [name for name, each in ESTIMATORS.items() if _can(lists, each)] if names is None else names
    strangers = [name for name in wanted if name not in ESTIMATORS]
    if strangers:
        raise BadInput(f"no estimator is named {strangers[0]!r}", f"there are {', '.join(ESTIMATORS)}")
    return {name: _estimate(lists, ESTIMATORS[name]) for name in wanted}


def _can(lists: LoggedLists, estimator: Estimator) -> bool:
    has_marginals = lists.has_marginals or not estimator.needs_marginals
    return has_marginals and (lists.predictions is not None or not estimator.needs_predictions)


def _estimate(lists: LoggedLists, estimator: Estimator) -> Estimate:
    weights = estimator.weights(lists)
    found = _support(lists, estimator, weights)
    if not estimator.needs_support:
        found = replace(found, refusal="")
    interval = gain = None
    if not found.refusal:
        moments = estimator.moments(lists, weights)
        interval, gain = moments.interval(), moments.less(lists.rewards.sum(axis=1)).interval()
    return Estimate(
        estimator=estimator.name,
        value=interval and interval.value,
        low=interval and interval.low,
        high=interval and interval.high,
        gain=gain,
        support=found.share if estimator.needs_support else None,
        effective=found.effective,
        refusal=found.refusal,
        assumes=estimator.assumes,
    )


def _support(lists: LoggedLists, estimator: Estimator, weights: np.ndarray) -> Support:
    if not estimator.needs_support:
        return Support(1.0, float(len(lists)))
    reach = lists.marginal_reach if estimator.needs_marginals else lists.reach
    if reach is None:
        return support.of_weights(weights, lists.stakes)
    if estimator.weights is list_weights:
        reach = np.repeat(reach[:, -1:], reach.shape[1], axis=1)
    return support.of_reach(reach, lists.stakes)


def logged_value(lists: LoggedLists) -> Interval:
    """Return what A earned with a list."""
    return _mean(lists.rewards.sum(axis=1)).interval()
