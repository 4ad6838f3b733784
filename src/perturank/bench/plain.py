"""The plain NumPy rankers of the source tree; an installed package has none."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from perturank.bench.rounds import SEED, TOP, USER
from perturank.bench.timing import clock
from perturank.clicks.dcm import TABLES
from perturank.datasets import Dataset

ABSENT = "oracle: needs the source tree, with its folder tests/"


CHECKOUT = Path(__file__).parents[3]


def rankers(checkout: Path = CHECKOUT) -> ModuleType | None:
    """Return the module of plain rankers beside this package, where it runs from a checkout."""
    tests = checkout / "tests"
    if not (tests / "oracles" / "rankers" / "__init__.py").is_file():
        return None
    sys.path.insert(0, str(tests))
    try:
        return importlib.import_module("oracles.rankers")
    finally:
        sys.path.remove(str(tests))


class PlainPlay:
    """A plain ranker among its users."""

    def __init__(self, module: ModuleType, ranker: Any, data: Dataset, n_grades: int) -> None:
        self.module, self.ranker, self.rng = module, ranker, np.random.default_rng(SEED)
        self.user = tuple(np.array(column) for column in TABLES[USER][n_grades])
        self.queries = [(x.astype(np.float64), grades) for x, grades in map(data.query, range(data.n_queries))]

    def for_seconds(self, seconds: float, most: int) -> tuple[int, float]:
        """Play until so many seconds have passed or so many rounds are done; return rounds and seconds."""
        n, began = 0, clock()
        while n < most and clock() - began < seconds:
            self.round()
            n += 1
        return n, clock() - began

    def round(self) -> None:
        """Play one round."""
        x, grades = self.queries[self.rng.integers(len(self.queries))]
        self.module.one_round(self.ranker, x, grades, self.user, self.rng, TOP)
