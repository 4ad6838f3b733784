"""How far an arm can be relied on: its worst runs, its collapses, and the errors it is certain of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perturank.experiments.evidence import Evidence
from perturank.results.outcome import RunOutcome
from perturank.significance import mean, tenth_percentile


@dataclass(frozen=True)
class Trust:
    """Runs of one arm and user after the last round: NDCG of the worst, their tenth percentile and mean.

    `collapses` is the share of runs below a random ranker, `uncertain` the mean share of uncertain pairs,
    `certain_wrong` that of certain orders that the grades contradict; NaN where unknown.
    """

    n_runs: int
    worst: float
    tenth: float
    mean: float
    collapses: float
    uncertain: float
    certain_wrong: float

    @classmethod
    def of(cls, runs: Sequence[RunOutcome]) -> Trust:
        """Return it for these runs, one or more."""
        ndcgs = [run.last("ndcg") for run in runs]
        known = [run.is_collapse for run in runs if run.is_collapse is not None]
        return cls(
            n_runs=len(runs),
            worst=min(ndcgs),
            tenth=tenth_percentile(ndcgs),
            mean=mean(ndcgs).value,
            collapses=float(np.mean(known)) if known else math.nan,
            uncertain=mean([run.last("uncertain") for run in runs]).value,
            certain_wrong=mean([run.last("certain_wrong") for run in runs]).value,
        )


def by_user(evidence: Evidence) -> Iterator[tuple[str, dict[str, Trust]]]:
    """Yield every user with runs, and the trust in each arm that has some."""
    for user in evidence.users:
        yield user, {arm: Trust.of(found[user]) for arm, found in evidence.runs.items() if found.get(user)}
