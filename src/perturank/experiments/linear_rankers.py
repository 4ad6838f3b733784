"""Linear rankers offline and online (fig:offline_linear, fig:online_linear)."""

from __future__ import annotations

from perturank.experiments.claims import better
from perturank.experiments.experiment import Arm, Drawing, Experiment
from perturank.experiments.grids import GREEDY, PAIRWISE, PERTURBED, RATE, WIDE

P2, P2_5, PAIRRANK, DIAGONAL = "P²LinRank N=2", "P²LinRank N=5", "PairRank", "PairRank-Diag"
OTHERS = ("PDGD", "DBGD", "ε-greedy")
BOTH = ("ndcg", "cumulative_ndcg")

EXPERIMENT = Experiment(
    name="linear-rankers",
    title="Linear rankers",
    about="P²LinRank with the paper's fit and N = 2 and 5, PairRank, its diagonal, PDGD, DBGD, MGD and ε-greedy; "
    "beside them P²LinRank with perturank's own defaults, the same as a greedy control (ν = 0, N = 1), and random "
    "lists.",
    arms=(
        Arm(P2, "p2linrank-paper", {"n_rankers": 2}, PERTURBED, WIDE, is_ours=True),
        Arm(P2_5, "p2linrank-paper", {"n_rankers": 5}, PERTURBED, WIDE, is_ours=True),
        Arm("P²LinRank, perturank", "p2linrank", is_ours=True),
        Arm("P²LinRank, greedy", "p2linrank", GREEDY),
        Arm(PAIRRANK, "pairrank", {}, PAIRWISE, WIDE),
        Arm(DIAGONAL, "pairrank-diag", {}, PAIRWISE, WIDE),
        Arm("PDGD", "pdgd-linear", {}, RATE),
        Arm("DBGD", "dbgd-linear", {}, RATE),
        Arm("MGD", "mgd-linear", {}, RATE),
        Arm("ε-greedy", "epsilon-greedy-linear", {}, RATE),
        Arm("random", "random"),
    ),
    drawings=(
        Drawing("fig:offline_linear", "ndcg", "Linear rankers, offline", "NDCG@10 on the test queries"),
        Drawing("fig:online_linear", "cumulative_ndcg", "Linear rankers, online", "cumulative NDCG"),
    ),
    claims=(
        better("P²LinRank is ahead of ε-greedy, DBGD and PDGD, offline and online.", P2, OTHERS, BOTH),
        better("PairRank is ahead of ε-greedy, DBGD and PDGD, offline and online.", PAIRRANK, OTHERS, BOTH),
        better("ε-greedy is the worst of them.", "DBGD", ("ε-greedy",), BOTH),
        better("The diagonal approximation costs PairRank online performance.", PAIRRANK, (DIAGONAL,), BOTH[1:]),
        better(
            "PairRank-Diag is behind PDGD online under perfect and informational users.",
            "PDGD",
            (DIAGONAL,),
            BOTH[1:],
            ("perfect", "informational"),
        ),
        better("P²LinRank with N = 2 learns faster than PairRank.", P2, (PAIRRANK,), BOTH[1:]),
    ),
)
