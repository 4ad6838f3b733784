"""Networks of width 100 and of 16 × 16, with and without the diagonal approximation (fig:neural_compare)."""

from __future__ import annotations

from perturank.experiments.claims import better, similar
from perturank.experiments.experiment import Arm, Drawing, Experiment
from perturank.experiments.grids import PAIRWISE, PERTURBED, RATE, WIDE

SMALL, LARGE = {"widths": (16, 16)}, {"widths": (100, 100)}
P2_LARGE, P2_SMALL = "P²NeurRank 100", "P²NeurRank 16×16"
DIAGONAL_LARGE, DIAGONAL_SMALL, FULL_SMALL = "olRankNet-Diag 100", "olRankNet-Diag 16×16", "olRankNet 16×16"

EXPERIMENT = Experiment(
    name="network-configurations",
    title="Width of the network and diagonal approximation",
    about="Offline performance under perfect users: P²NeurRank (N = 2) and olRankNet-Diag at width 100; P²NeurRank, "
    "olRankNet with all of its covariance, and its diagonal at 16 × 16.",
    arms=(
        Arm(P2_LARGE, "p2neurrank-paper", {"n_rankers": 2, **LARGE}, {**PERTURBED, **RATE}, WIDE, is_ours=True),
        Arm(P2_SMALL, "p2neurrank-paper", {"n_rankers": 2, **SMALL}, {**PERTURBED, **RATE}, WIDE, is_ours=True),
        Arm(DIAGONAL_LARGE, "olranknet-diag", LARGE, {**PAIRWISE, **RATE}, WIDE),
        Arm(DIAGONAL_SMALL, "olranknet-diag", SMALL, {**PAIRWISE, **RATE}, WIDE),
        Arm(FULL_SMALL, "olranknet", SMALL, {**PAIRWISE, **RATE}, WIDE),
    ),
    drawings=(Drawing("fig:neural_compare", "ndcg", "Network configurations, offline", "NDCG@10 on the test queries"),),
    claims=(
        better("At 16 × 16, all of the covariance beats its diagonal.", FULL_SMALL, (DIAGONAL_SMALL,), ("ndcg",)),
        similar("At 16 × 16, P²NeurRank is level with the full covariance.", P2_SMALL, (FULL_SMALL,), ("ndcg",)),
        better("The wider network is better for P²NeurRank.", P2_LARGE, (P2_SMALL,), ("ndcg",)),
        better("At width 100, P²NeurRank beats the diagonal.", P2_LARGE, (DIAGONAL_LARGE,), ("ndcg",)),
    ),
    users=("perfect",),
)
