"""Every published ranker on embedded data, for a first look."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perturank import catalogue, clicks, datasets, figures, simulation

DATA = "synthetic"
USER = "perfect"
SEED = 1


@dataclass(frozen=True)
class Outcome:
    """What one ranker reached."""

    name: str
    ndcg: float
    cumulative_ndcg: float
    rounds_per_second: float


def names() -> list[str]:
    """Return every published ranker."""
    return list(catalogue.rankers())


def outcome(name: str, rounds: int, on_progress: Callable[[int], None] | None = None) -> Outcome:
    """Return what this ranker reaches in so many rounds."""
    fold = _fold()
    settings = catalogue.published(name).settings
    user = clicks.user(USER, fold.n_grades)
    plan = simulation.Plan(name, settings, user, fold, rounds, SEED, (rounds,))
    run = simulation.simulate(plan, on_progress=on_progress)
    last = run.checkpoints[-1]
    return Outcome(name, last.ndcg, last.cumulative_ndcg, run.rounds_per_second)


def figure_in(folder: Path) -> Path:
    """Return the path of the figure in a folder that exists and can be written to."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        return folder / "rankers.png"


def draw(outcomes: Sequence[Outcome], rounds: int, path: Path) -> None:
    """Draw what each ranker reached, online and offline."""
    figures.ranked(
        [outcome.name for outcome in outcomes],
        {
            f"online: cumulative NDCG after {rounds} rounds": [outcome.cumulative_ndcg for outcome in outcomes],
            "offline: NDCG@10 on the test queries": [outcome.ndcg for outcome in outcomes],
        },
        title=f"{USER.capitalize()} users on {DATA} data",
        path=path,
    )


@functools.cache
def _fold() -> datasets.Fold:
    return datasets.load(DATA)
