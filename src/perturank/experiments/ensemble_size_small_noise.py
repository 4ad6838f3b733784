"""N against ν² = 0.01 (fig:variance_001)."""

from __future__ import annotations

from perturank.experiments.claims import better
from perturank.experiments.ensembles import experiment, label

EXPERIMENT = experiment(
    "ensemble-size-small-noise",
    "fig:variance_001",
    0.01,
    better(
        "With the smaller noise, N = 10 is better than 2 and 5.",
        label(10),
        (label(2), label(5)),
        ("ndcg", "cumulative_ndcg"),
    ),
)
