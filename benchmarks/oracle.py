"""The plain NumPy rankers of tests/oracles among the same users: what the compiled rankers are timed beside."""

from __future__ import annotations

import numpy as np
from oracles.rankers import PlainRanker, one_round

from benchmarks.loop import SEED, TOP, USER
from perturank.clicks.dcm import TABLES
from perturank.datasets import Dataset
from perturank.sweeps.speed import clock


class OracleLoop:
    """A plain ranker among its users."""

    def __init__(self, ranker: PlainRanker, data: Dataset, n_grades: int) -> None:
        self.ranker, self.rng = ranker, np.random.default_rng(SEED)
        click, stop = (np.array(column) for column in TABLES[USER][n_grades])
        self.user = click, stop
        self.queries = [(x.astype(np.float64), grades) for x, grades in map(data.query, range(data.n_queries))]

    def run_for(self, seconds: float, most: int) -> tuple[int, float]:
        """Run until so many seconds have passed or so many rounds are done; return rounds and seconds."""
        n, began = 0, clock()
        while n < most and clock() - began < seconds:
            self.run_round()
            n += 1
        return n, clock() - began

    def run_round(self) -> None:
        """Run one round."""
        x, grades = self.queries[self.rng.integers(len(self.queries))]
        one_round(self.ranker, x, grades, self.user, self.rng, TOP)
