"""Section `rankers`: rounds per second of every ranker, beside its plain NumPy oracle on the same data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from oracles.rankers import started

from benchmarks.loop import SEED, TOP, USER, Loop, fresh, world_of
from benchmarks.oracle import OracleLoop
from benchmarks.section import Advance, Column, Effort, Row, Rows, Section
from perturank import catalogue, datasets
from perturank.core import with_room
from perturank.hyperparameters import Settings
from perturank.simulation import World

DATA = "synthetic"
PASSES = 5
LONGER = 4  # times: a chunk's first rounds pay for its memory, which must not show
SIZES = {"p2headrank": (2, 10)}  # N, where a round should cost much the same whatever it is

COLUMNS = (
    Column("rounds_per_second", "rounds/s", "rate", "{:,.0f}"),
    Column("to_round", "to round", "fact", "{:,.0f}"),
    Column("oracle_rounds_per_second", "oracle", "fact"),
    Column("oracle_to_round", "to round", "fact", "{:,.0f}"),
    Column("times_faster", "× faster", "fact", "{:,.1f}"),
)


def names(effort: Effort) -> tuple[str, ...]:
    """Return the rankers asked for, or all; an unknown one is refused."""
    return tuple(catalogue.published(name).name for name in effort.rankers or catalogue.rankers())


@dataclass(frozen=True)
class Case:
    """A row: a ranker and its settings."""

    label: str
    ranker: str
    settings: Settings


def cases(effort: Effort) -> tuple[Case, ...]:
    """Return the rows: every ranker as it is shipped, some at several N."""
    found: list[Case] = []
    for name in names(effort):
        settings = catalogue.published(name).settings
        if name in SIZES:
            found += (Case(f"{name}, N = {n}", name, settings.changed(n_rankers=n)) for n in SIZES[name])
        else:
            found.append(Case(name, name, settings))
    return tuple(found)


def measure(effort: Effort, advance: Advance) -> Rows:
    """Return one row per case."""
    fold = datasets.load(DATA)
    world = world_of(fold.train, fold.n_grades)
    rows: Rows = {}
    for case in cases(effort):
        n, seconds = _best_pass(world, case, fold.n_features, effort)
        row = rows[case.label] = Row({"rounds_per_second": n / seconds, "to_round": n})
        advance(case.label)
        oracle = _oracle(case, fold, effort)
        if oracle is not None:
            n_plain, seconds_plain = oracle
            row.values |= {
                "oracle_rounds_per_second": n_plain / seconds_plain,
                "oracle_to_round": n_plain,
                "times_faster": (n / seconds) / (n_plain / seconds_plain),
            }
        advance(f"{case.label}, oracle")
    return rows


def _best_pass(world: World, case: Case, n_features: int, effort: Effort) -> tuple[int, float]:
    """Return rounds and seconds of the best of a few passes over the same rounds."""
    best, spent = (0, float("inf")), 0.0
    for _ in range(PASSES):
        loop = Loop(world, with_room(fresh(case.ranker, n_features, case.settings), effort.rounds, TOP))
        done = loop.run_for(LONGER * effort.seconds, effort.rounds)
        best = max(best, done, key=lambda pair: pair[0] / pair[1])
        spent += done[1]
        if spent >= LONGER * effort.seconds:
            break
    return best


def _oracle(case: Case, fold: datasets.Fold, effort: Effort) -> tuple[int, float] | None:
    ranker = started(case.ranker, fold.n_features, case.settings.as_dict(), np.random.default_rng(SEED))
    if ranker is None:
        return None
    return OracleLoop(ranker, fold.train, fold.n_grades).run_for(effort.seconds, effort.rounds)


SECTION = Section(
    "rankers",
    "",
    f"rank, click and learn: {DATA} data, {USER} users",
    lambda effort: COLUMNS,
    lambda effort: 2 * len(cases(effort)),
    measure,
    "an oracle that got less far met a shorter history: its rate is that of its cheapest rounds",
)
