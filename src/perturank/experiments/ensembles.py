"""P²NeurRank with 2, 5 and 10 networks, for one strength of noise."""

from __future__ import annotations

from perturank.experiments.experiment import Arm, Claim, Drawing, Experiment
from perturank.experiments.grids import PERTURBED, RATE, WIDE

SIZES = (2, 5, 10)


def label(n: int) -> str:
    """Return the name of the arm with n networks."""
    return f"N={n}"


def experiment(name: str, figure: str, variance: float, claim: Claim) -> Experiment:
    """Return the comparison at this ν²; perfect users, since the paper names none."""
    settings = [{"n_rankers": n, "noise_std": variance**0.5} for n in SIZES]
    return Experiment(
        name=name,
        title=f"Number of networks at ν² = {variance:g}",
        about=f"P²NeurRank with N = 2, 5 and 10 networks and noise of variance ν² = {variance:g}, perfect users. "
        "(The paper's captions say ν² and its text ν; the captions are taken.)",
        arms=tuple(
            Arm(label(n), "p2neurrank-paper", changes, {**PERTURBED, **RATE}, WIDE, is_ours=True)
            for n, changes in zip(SIZES, settings, strict=True)
        ),
        drawings=(
            Drawing(figure, "ndcg", f"ν² = {variance:g}, offline", "NDCG@10 on the test queries"),
            Drawing(figure, "cumulative_ndcg", f"ν² = {variance:g}, online", "cumulative NDCG"),
        ),
        claims=(claim,),
        users=("perfect",),
    )
