"""Noise on the clicks against noise on clicks and parameters (fig:offline_neural_model, fig:online_neural_model)."""

from __future__ import annotations

from perturank.experiments.claims import better, similar
from perturank.experiments.experiment import Arm, Drawing, Experiment
from perturank.experiments.grids import PAIRWISE, PERTURBED, RATE, WIDE

CLICKS, PARAMETERS = "perturbed clicks", "perturbed clicks and parameters"
OTHERS = ("olRankNet-Diag", "PDGD")
BOTH = ("ndcg", "cumulative_ndcg")
SEARCH = {**PERTURBED, **RATE}

EXPERIMENT = Experiment(
    name="perturbed-parameters",
    title="Perturbed clicks, and perturbed parameters too",
    about="P²NeurRank (N = 2) as in the paper's body, and with the appendix's noise on the regulariser too.",
    arms=(
        Arm(CLICKS, "p2neurrank-paper", {"n_rankers": 2}, SEARCH, WIDE, is_ours=True),
        Arm(PARAMETERS, "p2neurrank-paper", {"n_rankers": 2, "perturb": "clicks+parameters"}, SEARCH, WIDE, True),
        Arm("olRankNet-Diag", "olranknet-diag", {}, {**PAIRWISE, **RATE}, WIDE),
        Arm("PDGD", "pdgd-neural", {}, RATE),
    ),
    drawings=(
        Drawing("fig:offline_neural_model", "ndcg", "What is perturbed, offline", "NDCG@10 on the test queries"),
        Drawing("fig:online_neural_model", "cumulative_ndcg", "What is perturbed, online", "cumulative NDCG"),
    ),
    claims=(
        similar("The two perform alike.", PARAMETERS, (CLICKS,), BOTH),
        better("Perturbed clicks are ahead of olRankNet-Diag and PDGD.", CLICKS, OTHERS, BOTH),
        better("Perturbed clicks and parameters are ahead of them too.", PARAMETERS, OTHERS, BOTH),
    ),
)
