"""A ranker and its users, compiled as a simulation compiles them, and timed."""

from __future__ import annotations

from dataclasses import dataclass

from perturank import catalogue, clicks
from perturank.core import START, Ranker, streams
from perturank.datasets import Dataset
from perturank.hyperparameters import Settings
from perturank.simulation import LONGEST_CHUNK, Shelf, World, rounds_done
from perturank.sweeps.speed import clock

TOP = 10
SEED = 1
USER = "perfect"


def world_of(data: Dataset, n_grades: int) -> World:
    """Return the users and their queries, on the device."""
    return World(Shelf.of(data, TOP), clicks.user(USER, n_grades), streams(SEED), TOP)


def fresh(name: str, n_features: int, settings: Settings | None = None) -> Ranker:
    """Return a ranker that has learned nothing."""
    entry = catalogue.published(name)
    return entry.make(n_features, streams(SEED)[START], settings or entry.settings)


@dataclass
class Loop:
    """A ranker among its users: the loop is compiled at the start, and no timed round compiles anything."""

    world: World
    ranker: Ranker
    round: int = 0

    def __post_init__(self) -> None:
        self.ranker = rounds_done(self.world, self.ranker, self.round, 0)[0]

    def run(self, n: int) -> float:
        """Run n more rounds; return their seconds."""
        began = clock()
        while n > 0:
            step = min(n, LONGEST_CHUNK)
            self.ranker = rounds_done(self.world, self.ranker, self.round, step)[0]
            self.round += step
            n -= step
        return clock() - began

    def run_for(self, seconds: float, most: int) -> tuple[int, float]:
        """Run until so many seconds have passed or so many rounds are done; return rounds and seconds."""
        n, spent = 0, 0.0
        step = 1
        while n < most and spent < seconds:
            step = min(step, most - n)
            spent += self.run(step)
            n += step
            step = max(1, min(4 * step, int(n * (seconds - spent) / max(spent, 1e-9) / 2)))
        return n, spent
