"""Runs that nobody made, for reports: curves with noise, by arm, user, fold and seed."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Arm, Choice, Claim, Curve, Drawing, Experiment, Finding, Verdict
from perturank.results.job import Job
from perturank.results.outcome import MEASURES, RunOutcome

USERS = ("perfect", "navigational", "informational")


def outcome(
    measures: Mapping[str, Sequence[float] | np.ndarray],
    rounds: Sequence[int],
    *,
    fold: int = 1,
    seed: int = 0,
    data: str = "synthetic",
    user: str = "perfect",
    ranker: str = "p2linrank",
) -> RunOutcome:
    """Return a run that came to these values; other measures are unknown."""
    job = Job(ranker, "{}", data, "0", fold, user, int(rounds[-1]), seed, tuple(map(int, rounds)))
    unknown = {name: np.full(len(rounds), np.nan) for name in MEASURES}
    known = {name: np.asarray(values, np.float64) for name, values in measures.items()}
    return RunOutcome(job, np.asarray(rounds, np.int64), unknown | known, {})


def finals(values: Mapping[str, Mapping[str, Sequence[float]]], *, data: str = "synthetic") -> Evidence:
    """Return runs of two evaluations by arm and user, whose NDCG ends at the values; the i-th has seed i."""
    runs = {
        arm: {
            user: [
                outcome({"ndcg": [0.0, v], "seconds": [0.5, 2.0 + i]}, [1, 1000], seed=i, data=data, user=user)
                for i, v in enumerate(ends)
            ]
            for user, ends in by_user.items()
        }
        for arm, by_user in values.items()
    }
    return Evidence(data, runs)


def drawing(measure: str = "ndcg", label: str = "fig:offline_linear", **more: Any) -> Drawing:
    """Return a plain drawing."""
    return Drawing(label, measure, f"A drawing of {measure}", measure, **more)


def finding(
    evidence: Sequence[Evidence],
    arms: Sequence[Arm],
    choices: tuple[Choice, ...] = (),
    n_missing: int = 0,
    **more: Any,
) -> Finding:
    """Return a finding of one drawing of NDCG, unless told otherwise."""
    about = {"name": "linear", "title": "Linear rankers", "about": "What it shows.", "drawings": (drawing(),)} | more
    experiment = Experiment(arms=tuple(arms), **about)
    return Finding(experiment, tuple(evidence), choices, n_missing)


ARMS = (
    Arm("P²LinRank N=2", "p2linrank", is_ours=True),
    Arm("P²LinRank N=5", "p2linrank", is_ours=True),
    Arm("PairRank", "pairrank"),
    Arm("PairRank-Diag", "pairrank-diag"),
    Arm("ε-Greedy", "epsilon-greedy"),
    Arm("DBGD", "dbgd"),
    Arm("MGD", "mgd"),
    Arm("PDGD", "pdgd"),
    Arm("random", "random"),
)


def realistic() -> list[Finding]:
    """Return three experiments that look like the paper's: performance, regret with its bound, running time."""
    rounds = np.unique(np.geomspace(1, 5000, 40).round().astype(int))
    rounds = np.unique(np.concatenate([rounds, np.arange(250, 5001, 250)]))
    evidence = [_noisy(data, level, rounds, ARMS) for data, level in (("synthetic", 0.55), ("../data/mq2008", 0.42))]
    says = "P² keeps PairRank's advantage over ε-Greedy, DBGD and PDGD, online and offline, for all three users."

    def check(runs: Evidence) -> Verdict:
        ours, theirs = (runs.mean(arm, "perfect", "ndcg") for arm in ("P²LinRank N=2", "PDGD"))
        return Verdict(ours > theirs, f"perfect: NDCG@10 {ours:.4f} against {theirs:.4f} of PDGD")

    claims = (
        Claim(says, check),
        Claim("ε-Greedy is the worst.", lambda runs: Verdict(False, "random 0.3012 < ε-Greedy 0.4010")),
        Claim("N = 2 suffices.", lambda runs: Verdict(None, "N = 2 less N = 5: 0.0003 ± 0.0021, n = 10")),
    )
    choices = tuple(
        Choice(each.data, arm.label, user, fold, {"alpha": 0.1, "l2": 0.01, "noise_std": 0.1}, 18, 0.4 + 0.01 * fold)
        for each in evidence
        for arm in ARMS[:3]
        for user in USERS
        for fold in (1, 2)
    )
    drawings = (
        Drawing("fig:offline_linear", "ndcg", "Offline performance of linear rankers", "NDCG@10"),
        Drawing("fig:online_linear", "cumulative_ndcg", "Online performance of linear rankers", "cumulative NDCG@10"),
    )
    about = "P² with N = 2 and N = 5 beside its rivals, all with linear scorers.\n\nNDCG@10 on the test queries."
    linear = Experiment("linear", "Linear rankers", about, ARMS, drawings, claims)
    log = Drawing("regret", "regret", "Regret, a fit and the bound", "regret", True, True, _fit_and_bound)
    regret = Experiment("regret", "Regret against log²T", "What the theorem promises.", ARMS[:3], (log,), claims[2:])
    time = Drawing("fig:efficiency", "seconds", "Running time against rounds", "running time (s)")
    fast = Experiment("efficiency", "Efficiency", "How long learning takes.", ARMS[:4], (time,))
    first = Evidence("synthetic-linear", {arm.label: evidence[0].runs[arm.label] for arm in ARMS[:3]})
    perfect = {arm.label: {"perfect": evidence[1].runs[arm.label]["perfect"]} for arm in ARMS[:4]}
    return [
        Finding(linear, tuple(evidence), choices, 3),
        Finding(regret, (first,), (), 0),
        Finding(fast, (Evidence("mq2008", perfect),), (), 0),
    ]


def _fit_and_bound(evidence: Evidence, user: str) -> Mapping[str, Curve]:
    rounds = np.geomspace(2, 5000, 60)
    return {"fit: 5.2 log²T": (rounds, 5.2 * np.log(rounds) ** 2), "bound": (rounds, 1e9 * np.log(rounds) ** 4)}


def _noisy(data: str, level: float, rounds: np.ndarray, arms: Sequence[Arm]) -> Evidence:
    runs: dict[str, dict[str, list[RunOutcome]]] = {}
    for i, arm in enumerate(arms):
        for j, user in enumerate(USERS):
            for fold in (1, 2):
                for seed in range(5):
                    draw = np.random.default_rng(zlib.crc32(f"{data}{arm.label}{user}{fold}{seed}".encode()))
                    end = level - 0.018 * i**1.2 - 0.01 * j * (1 + i / 4)
                    start = level * 0.55
                    ndcg = end - (end - start) * np.exp(-rounds / (200 + 260 * i)) + draw.normal(0, 0.004)
                    ndcg += draw.normal(0, 0.002, len(rounds))
                    gains = np.diff(rounds, prepend=0)
                    found = {
                        "ndcg": ndcg,
                        "cumulative_ndcg": np.cumsum(gains * (ndcg + 0.02)),
                        "regret": 4 * (1 + i) * np.log(rounds + 1) ** 2 * draw.uniform(0.8, 1.2),
                        "seconds": (0.001 + 0.0006 * i) * rounds * draw.uniform(0.9, 1.1) + 1e-8 * i * rounds**2.0,
                    }
                    run = outcome(found, list(rounds), fold=fold, seed=seed, data=data, user=user, ranker=arm.ranker)
                    runs.setdefault(arm.label, {}).setdefault(user, []).append(run)
    return Evidence(data, runs)
