"""What a challenger would have earned on a model's traffic: everything follows from the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from perturank import counterfactual
from perturank.counterfactual import ESTIMATORS, Estimate, Interval, LoggedLists, Reward
from perturank.counterfactual.regression import cross_fitted
from perturank.service.evaluation.challengers import LEARNS_FROM, WAIT, Challenger, challenger
from perturank.service.evaluation.chances import Chances, chances
from perturank.service.evaluation.traffic import JudgedList, Traffic, read_traffic
from perturank.service.log import Log
from perturank.service.log.refusals import Refused

MILLISECONDS_A_DAY = 86_400_000
FIRST_CLICK: Reward = "first-click"
NEEDS_NO_MARGINALS = tuple(name for name, each in ESTIMATORS.items() if not each.needs_marginals)
BY_PLACE = "The first click at a place depends on the documents above it, whoever clicks."


@dataclass(frozen=True)
class Needed:
    """The exploration that would be needed: a share of places open to any document, lists, and days at this rate."""

    share: float
    lists: float
    days: float | None  # None: the log says nothing of the rate


@dataclass(frozen=True)
class Evaluation:
    """A challenger beside a model: what each earns with a list."""

    model: str
    against: str
    reward: Reward
    places: int
    first: int  # position of the first and of the last list that was judged
    last: int
    lists: int
    left_out: dict[str, int]
    earned: Interval  # by the model, as it was shown
    agrees: float  # share of lists whose first document is the challenger's
    estimates: list[Estimate]
    needed: Needed | None  # where an estimate was refused for lack of support
    note: str

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        values = asdict(self)
        values["earned"] = self.earned._asdict()
        for each, line in zip(self.estimates, values["estimates"], strict=True):
            line["gain"] = None if each.gain is None else each.gain._asdict()
        return values


def evaluate(
    log: Log,
    model: str,
    against: str,
    *,
    reward: Reward = FIRST_CLICK,
    estimators: Sequence[str] | None = None,
    settings: Mapping[str, str] | None = None,
    seed: int = 1,
    places: int | None = None,
    after: int = 0,
    learns_from: float = LEARNS_FROM,
) -> Evaluation:
    """Return what `against` would have earned on the lists of a model behind a position that did not teach it."""
    traffic = read_traffic(log, model)
    other = challenger(log, traffic, against, settings or {}, seed, learns_from)
    lists = [each for each in traffic.lists if each.position > max(after, other.after)]
    if not lists:
        raise Refused(f"no list of model {model!r} can be judged{_counted(traffic.left_out)}", _remedy(traffic))
    names = _names(estimators, reward)
    orders = [other.order(each.candidates) for each in lists]
    marginals = any(ESTIMATORS[name].needs_marginals for name in names)
    known = chances(log, traffic, lists, orders, marginals=marginals)
    kept = [number for number, each in enumerate(known) if each is not None]
    if not kept:
        raise Refused("the versions that showed these lists cannot be had any more", "judge newer lists with --after")
    lists, orders = [lists[number] for number in kept], [orders[number] for number in kept]
    lost = {"version not kept": len(known) - len(kept)} if len(kept) < len(known) else {}
    k = min(places or traffic.spec.places, max(len(each.log_p) for each in lists))
    found = _logged(lists, orders, [each for each in known if each is not None], reward, k, names)
    estimates = list(counterfactual.evaluate(found, names).values())
    return Evaluation(
        model,
        other.name,
        reward,
        k,
        lists[0].position,
        lists[-1].position,
        len(lists),
        traffic.left_out | lost,
        counterfactual.logged_value(found),
        float(np.mean(found.target[:, 0])),
        estimates,
        _needed(found, lists, estimates),
        _note(other, reward, estimators),
    )


def _names(estimators: Sequence[str] | None, reward: Reward) -> list[str]:
    """Return the estimators to use; refuse those whose assumption contradicts the reward."""
    names = list(estimators or (NEEDS_NO_MARGINALS if reward == FIRST_CLICK else ESTIMATORS))
    stranger = next((name for name in names if name not in ESTIMATORS), None)
    if stranger is not None:
        raise Refused(f"no estimator is named {stranger!r}", f"there are {', '.join(ESTIMATORS)}")
    wrong = next((name for name in names if reward == FIRST_CLICK and ESTIMATORS[name].needs_marginals), None)
    if wrong is not None:
        raise Refused(f"{wrong} cannot judge the first click: {BY_PLACE}", "ask for clicks, dcg or worth")
    return names


def _note(other: Challenger, reward: Reward, estimators: Sequence[str] | None) -> str:
    left_out = f"iips is left out: {BY_PLACE}" if reward == FIRST_CLICK and not estimators else ""
    return " ".join(each for each in (other.note, left_out) if each)


def _remedy(traffic: Traffic) -> str:
    """Return what to do where no list can be judged."""
    if "not complete yet" not in traffic.left_out:
        return WAIT
    return f"wait: a list is complete when its window closes, after {traffic.spec.window:g} s (`window` of the model)"


def _counted(left_out: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{why}: {n}' for why, n in left_out.items())})" if left_out else ""


def _logged(
    lists: Sequence[JudgedList],
    orders: Sequence[list[int]],
    known: Sequence[Chances],
    reward: Reward,
    k: int,
    names: Sequence[str],
) -> LoggedLists:
    """Return the lists as arrays of k places; shorter ones are filled up with certain places that earn nothing."""
    n = len(lists)
    is_place = np.zeros((n, k), bool)
    worth = np.zeros((n, k))
    filled = {name: np.ones((n, k)) for name in ("logged", "target", "reach", "marginal", "marginal_reach", "same")}
    d = lists[0].candidates.features.shape[1]
    rows = np.zeros((2, n, k, d + 1), np.float32)  # features and prior, of shown and of B's documents
    for i, (each, order, chance) in enumerate(zip(lists, orders, known, strict=True)):
        m = min(k, len(each.log_p))
        shown, other, about = np.array(each.candidates.shown[:m]), np.array(order[:m]), each.candidates
        is_place[i, :m], worth[i, :m] = True, each.worth[:m]
        filled["logged"][i, :m] = np.exp(each.log_p[:m])
        filled["same"][i, :m] = shown == other
        filled["target"][i, :m] = np.cumprod(shown == other)
        filled["reach"][i, :m], filled["reach"][i, m:] = chance.reach[:m], chance.reach[m - 1]
        if chance.marginal is not None and chance.marginal_reach is not None:
            filled["marginal"][i, :m], filled["marginal_reach"][i, :m] = chance.marginal[:m], chance.marginal_reach[:m]
        prior = np.zeros(len(about.ids), np.float32) if about.prior is None else about.prior
        table = np.column_stack([about.features, prior])
        rows[0, i, :m], rows[1, i, :m] = table[shown], table[other]
    earned = counterfactual.place_rewards(reward, worth)
    marginals = any(ESTIMATORS[name].needs_marginals for name in names)
    return LoggedLists(
        earned,
        filled["logged"],
        filled["target"],
        reach=filled["reach"],
        logged_marginal=filled["marginal"] if marginals else None,
        target_marginal=filled["same"] if marginals else None,
        marginal_reach=filled["marginal_reach"] if marginals else None,
        predictions=cross_fitted(earned, rows[0], rows[1], is_place)
        if any(ESTIMATORS[name].needs_predictions for name in names)
        else None,
    )


def _needed(found: LoggedLists, lists: Sequence[JudgedList], estimates: Sequence[Estimate]) -> Needed | None:
    """Return the exploration that prefixes need, if every estimator that goes by them was refused."""
    by_prefix = [each for each in estimates if each.estimator in ("rips", "snrips", "cdr")]
    if found.reach is None or not any(each.refusal for each in by_prefix):
        return None
    sizes = [len(each.candidates.ids) for each in lists]
    share, n = counterfactual.needed_exploration(found.reach, found.stakes, sizes)
    days = (lists[-1].at - lists[0].at) / MILLISECONDS_A_DAY
    return Needed(share, n, n / len(lists) * days if days > 0 else None)
