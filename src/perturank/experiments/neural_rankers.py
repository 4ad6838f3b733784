"""Neural rankers offline and online (fig:offline_neural, fig:online_neural)."""

from __future__ import annotations

from perturank.experiments.claims import better
from perturank.experiments.experiment import Arm, Drawing, Experiment
from perturank.experiments.grids import GREEDY, GREEDY_HEADS, PAIRWISE, PERTURBED, RATE, WIDE

P2, P2_5, DIAGONAL = "P²NeurRank N=2", "P²NeurRank N=5", "olRankNet-Diag"
OTHERS = ("PDGD", "DBGD", "MGD", "ε-greedy")
BOTH = ("ndcg", "cumulative_ndcg")

EXPERIMENT = Experiment(
    name="neural-rankers",
    title="Neural rankers",
    about="Networks of two hidden layers of 100 units: P²NeurRank with the paper's fit and N = 2 and 5, olRankNet "
    "with the diagonal of its covariance, PDGD, DBGD, MGD and ε-greedy; beside them P²NeurRank with perturank's own "
    "defaults, P²HeadRank (one network, whose last layer carries the noise), both also as greedy controls (ν = 0), and "
    "olRankNet with all of its covariance at 16 × 16 units.",
    arms=(
        Arm(P2, "p2neurrank-paper", {"n_rankers": 2}, {**PERTURBED, **RATE}, WIDE, is_ours=True),
        Arm(P2_5, "p2neurrank-paper", {"n_rankers": 5}, {**PERTURBED, **RATE}, WIDE, is_ours=True),
        Arm("P²NeurRank, perturank", "p2neurrank", is_ours=True),
        Arm("P²NeurRank, greedy", "p2neurrank", GREEDY),
        Arm("P²HeadRank", "p2headrank", is_ours=True),
        Arm("P²HeadRank, greedy", "p2headrank", GREEDY_HEADS),
        Arm(DIAGONAL, "olranknet-diag", {}, {**PAIRWISE, **RATE}, WIDE),
        Arm("olRankNet 16×16", "olranknet", {}, {**PAIRWISE, **RATE}, WIDE),
        Arm("PDGD", "pdgd-neural", {}, RATE),
        Arm("DBGD", "dbgd-neural", {}, RATE),
        Arm("MGD", "mgd-neural", {}, RATE),
        Arm("ε-greedy", "epsilon-greedy-neural", {}, RATE),
    ),
    drawings=(
        Drawing("fig:offline_neural", "ndcg", "Neural rankers, offline", "NDCG@10 on the test queries"),
        Drawing("fig:online_neural", "cumulative_ndcg", "Neural rankers, online", "cumulative NDCG"),
    ),
    claims=(
        better("P²NeurRank is ahead of ε-greedy, DBGD, MGD and PDGD, offline and online.", P2, OTHERS, BOTH),
        better("olRankNet is ahead of ε-greedy, DBGD, MGD and PDGD, offline and online.", DIAGONAL, OTHERS, BOTH),
        better("P²NeurRank is ahead of olRankNet at width 100.", P2, (DIAGONAL,), BOTH),
        better("N = 2 is the best of the ensembles.", P2, (P2_5,), BOTH),
    ),
)
