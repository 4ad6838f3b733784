"""The data and the users that obey the theorem's assumptions, and the problem that their constants make."""

from __future__ import annotations

from collections.abc import Callable

from perturank import theory
from perturank.datasets import linear_truth
from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Verdict

DATA = "synthetic-linear"
USER = "preferences"  # the only one whose preferences have the law of prop:pairwise
WHOLE_LIST = {"examined_beyond": 1000}  # l: this user reads every place, so all of a list counts as examined
ARM, RANKER = "P²LinRank N=2", "p2linrank-paper"


def problem(evidence: Evidence, user: str) -> theory.BoundProblem:
    """Return the constants of the theorem for these runs.

    A pair's features lie in a ball of radius 2, since documents lie in the unit ball. What the paper
    leaves open is taken at its most favourable: c, C_1, C_2 and λ_min(Σ) are 1. So is p*: the user reads
    every list to its end.
    """
    settings = evidence.runs[ARM][user][0].job.chosen
    return theory.BoundProblem(
        d=linear_truth.DIMENSION,
        v_max=linear_truth.LONGEST,
        shown=evidence.runs[ARM][user][0].job.top,
        delta_min=linear_truth.DELTA_MIN,
        P=2.0,
        Q=linear_truth.NORM,
        l2=settings["l2"],
        n_rankers=settings["n_rankers"],
        noise_std=settings["noise_std"],
    )


def of_every_user(evidence: Evidence, told: Callable[[str], tuple[bool, str]]) -> Verdict:
    """Return whether what is told of each user with runs holds for all of them."""
    found = [(user, *told(user)) for user in evidence.users if evidence.runs.get(ARM, {}).get(user)]
    if not found:
        return Verdict(None, "no runs")
    return Verdict(all(holds for _, holds, _ in found), "; ".join(f"{user}: {said}" for user, _, said in found))
