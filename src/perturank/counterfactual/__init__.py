"""What another ranker would have earned: its value, estimated on lists that were shown with known probabilities.

>>> lists = LoggedLists(rewards=[[1.0], [0.0]] * 200, logged=[[0.5], [0.5]] * 200, target=[[1.0], [0.0]] * 200)
>>> found = evaluate(lists, ["rips"])["rips"]
>>> found.value, found.effective, found.support
(1.0, 200.0, 1.0)
"""

from perturank.counterfactual.estimators import ESTIMATORS, Estimate, Interval, evaluate, logged_value
from perturank.counterfactual.lists import REWARDS, LoggedLists, Reward, place_rewards
from perturank.counterfactual.regression import Predictions, cross_fitted
from perturank.counterfactual.support import Support, needed_exploration

__all__ = [
    "ESTIMATORS",
    "REWARDS",
    "Estimate",
    "Interval",
    "LoggedLists",
    "Predictions",
    "Reward",
    "Support",
    "cross_fitted",
    "evaluate",
    "logged_value",
    "needed_exploration",
    "place_rewards",
]
