"""Are the orders that a ranker calls certain to be trusted? Reversed and wrong shares against noise and rounds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from perturank import significance
from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Arm, Claim, Drawing, Experiment, Verdict
from perturank.experiments.grids import GREEDY, GREEDY_HEADS
from perturank.experiments.reversals import CONTROL_REVERSED, CONTROL_WRONG, REVERSED, UNCERTAIN
from perturank.results.outcome import RunOutcome

LEVEL = 0.05
# Each has a greedy control, and an arm for every ν. Networks disagree without noise too, by their starts.
PERTURBED = {
    "P²LinRank": ("p2linrank", (0.1, 0.3, 1.0)),
    "P²NeurRank": ("p2neurrank", (0.0, 0.1, 0.3, 1.0)),
    "P²HeadRank": ("p2headrank", (0.1, 0.3, 1.0)),
}


def _perturbed(name: str) -> list[Arm]:
    ranker, noise = PERTURBED[name]
    exploring = [Arm(f"{name} ν={each:g}", ranker, {"noise_std": each}, is_ours=True) for each in noise]
    control = GREEDY_HEADS if ranker == "p2headrank" else GREEDY
    return [Arm(f"{name}, greedy", ranker, control), *exploring]


ARMS = (
    *(arm for name in PERTURBED for arm in _perturbed(name)),
    Arm("PairRank", "pairrank"),
    Arm("PDGD", "pdgd-linear"),
)
EXPLORING = [arm.label for arm in ARMS if arm.is_ours or arm.ranker == "pairrank"]


def log_slope(run: RunOutcome) -> float:
    """Return the slope of the share of uncertain pairs against log t over the last factor of ten in t."""
    share = run.measures["uncertain"]
    late = (run.rounds >= run.rounds[-1] / 10) & np.isfinite(share)
    return float(np.polyfit(np.log(run.rounds[late]), share[late], 1)[0]) if late.sum() > 1 else math.nan


def excess(run: RunOutcome) -> float:
    """Return the share reversed of certain orders less that of the control, in the mean over evaluations."""
    difference = run.measures[REVERSED] - run.measures[CONTROL_REVERSED]
    known = difference[np.isfinite(difference)]
    return float(known.mean()) if known.size else math.nan


def _not_above_zero(says: str, name: str, value: Callable[[RunOutcome], float], *, strictly: bool) -> Claim:
    """Return the claim that a value of runs is below 0 (or, not strictly, no more) in every exploring arm, every user.

    It fails where a mean is clearly above 0 (t-test, 5 %, Holm), and cannot be told where one is above, but not
    clearly.
    """

    def check(evidence: Evidence) -> Verdict:
        found = {
            (arm, user): values
            for arm in EXPLORING
            for user in evidence.users
            if (values := [v for run in evidence.runs.get(arm, {}).get(user, ()) if math.isfinite(v := value(run))])
        }
        if not found:
            return Verdict(None, "no runs, or too few seeds to compare")
        means = {place: float(np.mean(values)) for place, values in found.items()}
        p = dict(zip(found, significance.holm([significance.paired(values) for values in found.values()]), strict=True))
        above = [place for place, mean in means.items() if mean > 0 or (strictly and mean == 0)]
        clearly = [place for place in above if means[place] > 0 and p[place] < LEVEL]
        least = max(means, key=lambda place: means[place])
        told = clearly or above or [least]
        said = "; ".join(f"{arm}, {user}: {name} {means[arm, user]:+.4f}" for arm, user in told[:6])
        n = len(found)
        if clearly:
            return Verdict(False, f"clearly not in {len(clearly)} of {n}: {said}")
        if above:
            return Verdict(None, f"the other way round, but not clearly, in {len(above)} of {n}: {said}")
        return Verdict(True, f"so in all {n}; closest: {said}")

    return Claim(says, check)


EXPERIMENT = Experiment(
    name="calibration",
    title="Calibration of certain orders",
    about="P²LinRank, P²NeurRank and P²HeadRank for several ν, each with a greedy control (ν = 0), PairRank and PDGD. "
    "At every evaluation each run keeps its scores and its certain orders on 32 test queries. An order is reversed if "
    "the mean of the final scores of the other seeds puts the two documents the other way round, and wrong if the "
    "grades do. The dotted control calls equally many pairs of the run certain: those of the largest score difference. "
    "Not in the paper.",
    arms=ARMS,
    drawings=(
        Drawing("calibration", "uncertain", "Uncertain pairs", "share of all pairs", log_x=True),
        Drawing(
            "calibration",
            REVERSED,
            "Certain orders reversed later, by how much is uncertain",
            "reversed share of certain orders",
            against=UNCERTAIN,
            x_label="share of uncertain pairs",
            control=CONTROL_REVERSED,
        ),
        Drawing(
            "calibration",
            "certain_wrong",
            "Certain orders wrong against the grades",
            "wrong share of certain orders",
            log_x=True,
            control=CONTROL_WRONG,
        ),
        Drawing("calibration", "ndcg", "Offline", "NDCG@10 on the test queries", log_x=True),
    ),
    claims=(
        _not_above_zero(
            "The share of uncertain pairs falls with t under every user, also over the last factor of ten in t.",
            "slope",
            log_slope,
            strictly=True,
        ),
        _not_above_zero(
            "Orders called certain are reversed no more often than equally many orders of largest score difference.",
            "excess",
            excess,
            strictly=False,
        ),
    ),
    keeps_orders=True,
)
