"""The runs of one experiment on one data set, and the questions that can be asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from perturank.results.outcome import RunOutcome

Where = tuple[int, int]  # fold and seed: runs of two arms with the same are a pair


@dataclass(frozen=True)
class Evidence:
    """`runs[arm label][user]` are the final runs, tuned where the arm is, on the test queries."""

    data: str
    runs: Mapping[str, Mapping[str, Sequence[RunOutcome]]]

    @property
    def users(self) -> list[str]:
        """The users with runs of any arm."""
        return list(dict.fromkeys(user for by_user in self.runs.values() for user, found in by_user.items() if found))

    def finals(self, arm: str, user: str, measure: str) -> dict[Where, float]:
        """Return a measure after the last round of every run, by fold and seed."""
        found = self.runs.get(arm, {}).get(user, ())
        return {(run.job.fold, run.job.seed): run.last(measure) for run in found}

    def mean(self, arm: str, user: str, measure: str) -> float:
        """Return the mean over all runs; NaN where there is none."""
        values = list(self.finals(arm, user, measure).values())
        return float(np.mean(values)) if values else float("nan")

    def differences(self, arm: str, other: str, user: str, measure: str) -> np.ndarray:
        """Return arm less other for every fold and seed that both have."""
        ours, theirs = self.finals(arm, user, measure), self.finals(other, user, measure)
        return np.array([ours[where] - theirs[where] for where in sorted(ours.keys() & theirs.keys())])


def data_name(data: str) -> str:
    """Return how a data set is called in figures and tables: of a folder, its last part.

    >>> data_name("synthetic:60"), data_name("../data/mq2008/")
    ('synthetic:60', 'mq2008')
    """
    return PurePath(data).name or data
