"""Rankers by name against one another: what `perturank reproduce --rankers a,b` runs."""

from __future__ import annotations

from perturank.experiments.experiment import Drawing, Experiment

# No EXPERIMENT: it has no arms until rankers are named.
COMPARISON = Experiment(
    name="comparison",
    title="Comparison",
    about="",
    arms=(),
    drawings=(
        Drawing("comparison", "ndcg", "Offline", "NDCG on the test queries"),
        Drawing("comparison", "cumulative_ndcg", "Online", "cumulative NDCG"),
    ),
)
