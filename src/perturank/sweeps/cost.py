"""How long runs will take: from finished ones where there are some, else from rates measured before.

The reference rates are of the embedded data (136 features, 120 documents a query, 1,000 rounds, one thread
of a core that does 90 GFLOP/s in float32 matrix products) and scaled by what a round has to compute.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from perturank.results.job import Job
from perturank.results.outcome import RunOutcome
from perturank.sweeps.worker import program

REFERENCE_MS = {
    "random": 0.03,
    "pdgd-linear": 0.035,
    "dbgd-linear": 0.04,
    "mgd-linear": 0.1,
    "epsilon-greedy-linear": 0.06,
    "p2linrank": 0.85,
    "p2linrank-paper": 2.1,
    "pairrank": 0.8,
    "pairrank-diag": 0.7,
    "pdgd-neural": 0.2,
    "dbgd-neural": 0.6,
    "mgd-neural": 3.5,
    "epsilon-greedy-neural": 0.2,
    "olranknet": 7.0,
    "olranknet-diag": 2.9,
    "p2neurrank": 2.1,
    "p2neurrank-paper": 45.0,
    "p2headrank": 1.05,
}
UNKNOWN_MS = 5.0  # of a ranker that was never measured: its own finished runs replace it
WHOLE_HISTORY = ("p2linrank", "p2linrank-paper", "pairrank", "pairrank-diag", "p2neurrank-paper", "olranknet")
ONE_NETWORK = ("p2headrank",)  # N heads cost little more than two; its time is that of its last layer's matrices
GROWTH = 0.5  # exponent of t in the time of a round with the whole history, where pairs sometimes repeat
REFERENCE_FEATURES, REFERENCE_WIDTHS, REFERENCE_GFLOPS, REFERENCE_ROUNDS = 136, (100, 100), 90.0, 1000
COMPILING = 12.0  # seconds for each program; a few are needed as histories grow


@dataclass(frozen=True)
class Data:
    """What a run's time depends on of its data."""

    n_features: int
    n_test: int  # documents


def seconds(
    jobs: Iterable[Job], data: Mapping[str, Data], done: Mapping[str, RunOutcome], gflops: float
) -> list[float]:
    """Return the estimated seconds of every run, compilation apart."""
    measured = _measured(done)
    return [_one(job, data[job.data], measured, gflops) for job in jobs]


def compiling(jobs: Iterable[Job]) -> float:
    """Return the seconds that compiling takes, once for each program."""
    return COMPILING * len({program(job) for job in jobs})


def _one(job: Job, data: Data, measured: Mapping[tuple[str, str, str], float], gflops: float) -> float:
    known = measured.get((job.ranker, job.settings, job.data))
    a_round = known if known is not None else _reference(job, data) * REFERENCE_GFLOPS / gflops
    exams = len(job.evaluate_at) * data.n_test * _flops(job, data) / (gflops * 1e9)
    return job.rounds * a_round * _growth(job) + exams


def _reference(job: Job, data: Data) -> float:
    """Return the seconds of a round over the first thousand."""
    ms = REFERENCE_MS.get(job.ranker, UNKNOWN_MS)
    settings, scale = job.chosen, data.n_features / REFERENCE_FEATURES
    if widths := _widths(job):
        scale = _parameters(data.n_features, widths) / _parameters(REFERENCE_FEATURES, REFERENCE_WIDTHS)
        if job.ranker == "olranknet":
            scale = 1.0  # its time is that of the pairs' triangle
    if job.ranker in ONE_NETWORK:
        scale = ((data.n_features + settings["widths"][-1]) / (REFERENCE_FEATURES + REFERENCE_WIDTHS[-1])) ** 2
    else:
        scale *= _n_rankers(job, 2) / 2
    return 1e-3 * ms * max(scale, 0.1)


def _growth(job: Job) -> float:
    longer = max(job.rounds, 50) / REFERENCE_ROUNDS
    return float(longer**GROWTH) if job.ranker in WHOLE_HISTORY else 1.0


def _flops(job: Job, data: Data) -> float:
    widths = _widths(job)
    p = _parameters(data.n_features, widths) if widths else data.n_features
    return 2.0 * p * (1 if job.ranker in ONE_NETWORK else _n_rankers(job, 1))


def _widths(job: Job) -> list[int]:
    """Return the widths of a network's hidden layers; none where the ranker has no such list."""
    widths = job.chosen.get("widths")
    return widths if isinstance(widths, list) else []


def _n_rankers(job: Job, default: int) -> int:
    n = job.chosen.get("n_rankers")
    return n if isinstance(n, int) else default


def _parameters(n_features: int, widths: Iterable[int]) -> int:
    sizes = [n_features, *widths, 1]
    return int(sum(np.multiply(sizes[:-1], sizes[1:])))


def _measured(done: Mapping[str, RunOutcome]) -> dict[tuple[str, str, str], float]:
    """Return the seconds of a round of finished runs, brought to a thousand rounds."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for outcome in done.values():
        job = outcome.job
        a_round = outcome.last("seconds") / job.rounds / _growth(job)
        found.setdefault((job.ranker, job.settings, job.data), []).append(a_round)
    return {key: statistics.median(values) for key, values in found.items()}
