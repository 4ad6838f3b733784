"""Running time against rounds (fig:efficiency)."""

from __future__ import annotations

from perturank.experiments.claims import ratio
from perturank.experiments.experiment import Arm, Drawing, Experiment

WIDTHS = {"widths": (16, 16)}
FULL, DIAGONAL, ONE, TWO = "olRankNet", "olRankNet-Diag", "P²NeurRank N=1", "P²NeurRank N=2"

EXPERIMENT = Experiment(
    name="efficiency",
    title="Running time",
    about="Networks of 16 × 16 units and perfect users: rank, click and learn, compilation apart. N = 1 explores "
    "nothing: its time is that of the training. The time is perturank's on this machine, with one thread.",
    arms=(
        Arm(TWO, "p2neurrank-paper", {"n_rankers": 2, **WIDTHS}, is_ours=True),
        Arm(ONE, "p2neurrank-paper", {"n_rankers": 1, **WIDTHS}, is_ours=True),
        Arm(DIAGONAL, "olranknet-diag", WIDTHS),
        Arm(FULL, "olranknet", WIDTHS),
    ),
    drawings=(Drawing("fig:efficiency", "seconds", "Running time", "seconds so far"),),
    claims=(
        ratio("All of the covariance costs far more than the training.", FULL, ONE, "seconds", lambda r: r > 2),
        ratio("Its diagonal is much cheaper.", FULL, DIAGONAL, "seconds", lambda r: r > 1.5),
        ratio("P²NeurRank with N = 2 takes little more than the diagonal.", TWO, DIAGONAL, "seconds", lambda r: r < 2),
    ),
    users=("perfect",),
)
