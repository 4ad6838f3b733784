"""The picture of trapped runs: `python docs/trapped.py path/to/OHSUMED` writes docs/images/trapped.png.

Twenty runs each of a greedy ranker, of little noise, of the shipped default and of PDGD, under informational users.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

from perturank import catalogue, datasets, metrics
from perturank.clicks import user
from perturank.simulation import Plan, simulate

matplotlib.use("Agg")
import matplotlib.pyplot as plt

IMAGE = Path(__file__).parent / "images" / "trapped.png"
SEEDS, ROUNDS = range(1, 21), 2000
EVALUATE_AT = (10, 30, 60, 100, 150, 200, 300, 400, 500, 700, 1000, 1400, 2000)
ARMS = {
    "greedy: ν = 0, no floor": ("p2headrank", {"noise_std": 0.0, "floor": 0.0}),
    "ν = 0.1, no floor": ("p2headrank", {"noise_std": 0.1, "early_noise": 1.0, "floor": 0.0}),
    "p2headrank as shipped": ("p2headrank", {}),
    "pdgd-linear": ("pdgd-linear", {}),
}


def curves(fold: datasets.Fold, ranker: str, changes: dict[str, float]) -> np.ndarray:
    """Return the test NDCG@10 of every seed at every evaluation; [20, T]."""
    settings = catalogue.published(ranker).settings.changed(**changes)
    watcher = user("informational", fold.n_grades)
    runs = [simulate(Plan(ranker, settings, watcher, fold, ROUNDS, seed, EVALUATE_AT)) for seed in SEEDS]
    return np.array([[checkpoint.ndcg for checkpoint in run.checkpoints] for run in runs])


def main(path: str) -> None:
    """Run the four arms and draw them."""
    fold = datasets.load(path)
    random = metrics.random_ndcg(fold.test.labels, fold.test.offsets, 10)
    figure, axes = plt.subplots(1, len(ARMS), figsize=(11, 3), sharey=True, layout="constrained")
    for axis, (title, (ranker, changes)) in zip(axes, ARMS.items(), strict=True):
        found = curves(fold, ranker, changes)
        trapped = found[:, -1] < random
        for run, is_trapped in zip(found, trapped, strict=True):
            axis.plot(EVALUATE_AT, run, color="#D55E00" if is_trapped else "#0072B2", alpha=0.6, linewidth=1)
        axis.axhline(random, color="#56606B", linestyle=":", linewidth=1)
        axis.set(title=f"{title}\n{trapped.sum()} of {len(found)} trapped", xlabel="rounds", xscale="log")
        axis.title.set_fontsize(10)
    axes[0].set_ylabel("NDCG@10, test queries")
    axes[0].text(EVALUATE_AT[0], random, " random", va="bottom", fontsize=8, color="#56606B")
    figure.savefig(IMAGE, dpi=150)


if __name__ == "__main__":
    main(sys.argv[1])
