"""N against ν² = 0.1 (fig:variance_01)."""

from __future__ import annotations

from perturank.experiments.claims import better
from perturank.experiments.ensembles import experiment, label

EXPERIMENT = experiment(
    "ensemble-size-large-noise",
    "fig:variance_01",
    0.1,
    better(
        "With the larger noise, N = 2 is better than 5 and 10.",
        label(2),
        (label(5), label(10)),
        ("ndcg", "cumulative_ndcg"),
    ),
)
