"""Section `growth`: time per round at round t, with the whole history, with a budget, and of the plain oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from oracles.rankers.network_history import P2NeurRank

from benchmarks import histories
from benchmarks.loop import SEED, TOP, Loop, fresh, world_of
from benchmarks.oracle import OracleLoop
from benchmarks.section import Advance, Column, Effort, Row, Rows, Section
from perturank import catalogue, clicks, datasets
from perturank.core import with_room
from perturank.datasets import Dataset, Fold
from perturank.simulation import World
from perturank.sweeps.speed import clock

WHOLE, BUDGET, LINEAR = "p2neurrank, whole history", "p2neurrank, budget", "p2linrank, whole history"
HEADS = "p2headrank, budget"
ORACLE = "oracle of p2neurrank, whole history"
WARM_UP = 2  # rounds: the linear fit begins at 0 in a history that is not empty
LAPS, MOST = 4, 300  # rounds are timed in laps
TELLING = "dcm:click=.5,.5,.5,.5,.5;stop=0,0,0,0,0"  # a round without a pair has no fit, and would cost nothing
ROOM = 400  # rounds between two growths of the history, as in a simulation
EXPONENT_FROM = 500  # earlier rounds are mostly overhead


def all_rounds(effort: Effort) -> tuple[int, ...]:
    """Return the rounds at which something is timed."""
    return (*effort.at, *effort.at_with_budget)


def columns(effort: Effort) -> tuple[Column, ...]:
    """Return a column per round, and the exponent of t."""
    at = (Column(key(t), f"t = {t:,}", "time") for t in all_rounds(effort))
    return (*at, Column("exponent", "exponent", "fact", "{:.2f}"))


def key(t: int) -> str:
    """Return the key of the time at round t."""
    return f"ms_at_{t}"


def measure(effort: Effort, advance: Advance) -> Rows:
    """Return a row per ranker and number of queries, and one for the oracle."""
    rows: Rows = {}
    pairs_a_round = 0.0
    fold = datasets.load("synthetic")
    world = world_of(repeated(fold.train, max(effort.queries)), fold.n_grades)
    for n_queries in effort.queries:
        seen = []
        # The first of the same queries: the data's shapes stay, and with them some compiled programs.
        few = eqx.tree_at(lambda w: w.shelf.n_queries, world, jnp.asarray(n_queries))
        for t, filled, times in _followed(few, fold, effort):
            documents, pairs = histories.sizes(filled)
            pairs_a_round = max(pairs_a_round, pairs / t)
            seen.append(f"{documents:,} documents and {pairs:,} pairs at {t:,}")
            for label, seconds in times.items():
                row = rows.setdefault(f"{label}, {n_queries:,} queries", Row())
                row.values[key(t)] = 1e3 * seconds
            advance(f"round {t:,}, {n_queries:,} queries")
        rows[f"{WHOLE}, {n_queries:,} queries"].note = f"{n_queries:,} queries: {'; '.join(seen)}"
    rows[ORACLE] = _oracle(fold, pairs_a_round, effort, advance)
    for row in rows.values():
        row.values["exponent"] = exponent({t: row.values.get(key(t)) for t in effort.at})
    return rows


def curves(rows: Mapping[str, Row]) -> dict[str, dict[str, dict[int, float]]]:
    """Return the times {t: ms} by number of queries and ranker; the oracle, which shares no pair, is in each."""
    panels: dict[str, dict[str, dict[int, float]]] = {}
    for name, row in rows.items():
        times = {int(k.removeprefix(key(0)[:-1])): v for k, v in row.values.items() if k != "exponent" and v}
        label, _, queries = name.rpartition(", ")
        if name == ORACLE:
            for panel in panels.values():
                panel[ORACLE.partition(",")[0]] = times
        else:
            panels.setdefault(queries, {})[label] = times
    return panels


def exponent(times: Mapping[int, float | None]) -> float | None:
    """Return the slope of log time against log t, from round 500 on where there are two such rounds.

    >>> exponent({100: 9.0, 1000: 2.0, 4000: 8.0})
    1.0
    """
    known = {t: ms for t, ms in times.items() if ms is not None}
    late = {t: ms for t, ms in known.items() if t >= EXPONENT_FROM}
    used = late if len(late) > 1 else known
    if len(used) < 2:
        return None
    return round(float(np.polyfit(np.log(list(used)), np.log(list(used.values())), 1)[0]), 3)


def repeated(data: Dataset, n_queries: int) -> Dataset:
    """Return so many queries: the same ones again and again, as different documents."""
    copies = -(-n_queries // data.n_queries)
    return Dataset.joined([data] * copies, data.name).between(0, n_queries)


def _followed(world: World, fold: Fold, effort: Effort) -> Iterator[tuple[int, Any, dict[str, float]]]:
    """Yield each round t, the small network at that round, and the seconds per round of every ranker there."""
    telling = replace(world, user=clicks.user(TELLING, fold.n_grades))
    settings = catalogue.published("p2neurrank").settings
    followed = {
        WHOLE: fresh("p2neurrank", fold.n_features, settings.changed(budget=None)),
        BUDGET: fresh("p2neurrank", fold.n_features),
        HEADS: fresh("p2headrank", fold.n_features),
        LINEAR: fresh("p2linrank", fold.n_features),
    }
    filler = Loop(world, with_room(histories.small(fold.n_features), ROOM, TOP))
    for t in all_rounds(effort):
        filler = _filled(filler, t)
        timed = followed if t in effort.at else {label: followed[label] for label in (BUDGET, HEADS)}
        times = {
            label: _seconds(telling, histories.moved(filler.ranker, ranker), t, effort)
            for label, ranker in timed.items()
        }
        yield t, filler.ranker, times


def _filled(filler: Loop, t: int) -> Loop:
    """Return the small network after round t."""
    while filler.round < t:
        n = min(ROOM, t - filler.round)
        grown = with_room(filler.ranker, n, TOP)
        filler = filler if grown is filler.ranker else Loop(filler.world, grown, filler.round)
        filler.run(n)
    return filler


def _seconds(world: World, ranker: Any, t: int, effort: Effort) -> float:
    """Return the seconds of a round after round t."""
    loop = Loop(world, with_room(ranker, ROOM, TOP), t)
    guess = loop.run(WARM_UP) / WARM_UP
    n = max(1, min(MOST // LAPS, int(effort.seconds / LAPS / guess)))
    return min(loop.run(n) / n for _ in range(LAPS))  # the best lap: others disturb, and never help


def _oracle(fold: Fold, pairs_a_round: float, effort: Effort, advance: Advance) -> Row:
    """Return the oracle's time per round with as many pairs as t rounds have told: it shares none of them."""
    row = Row(note=f"the oracle was given {pairs_a_round:,.1f} pairs a round")
    settings = catalogue.published("p2neurrank").settings.changed(budget=None).as_dict()
    for t in effort.at:
        rng = np.random.default_rng(SEED)
        ranker = P2NeurRank(fold.n_features, settings, rng)
        n, x = round(pairs_a_round * t), fold.train.features
        ends = rng.integers(len(x), size=(2, n))
        ranker.remember(x[ends[0]].astype(np.float64), x[ends[1]].astype(np.float64), np.ones(n))
        row.values[key(t)] = 1e3 * _seconds_of_an_update(ranker, fold, effort.seconds)
        advance(f"oracle, round {t:,}")
    return row


def _seconds_of_an_update(ranker: P2NeurRank, fold: Fold, seconds: float) -> float:
    """Return the shortest round that tells a pair, of as many as fit into so many seconds."""
    loop, times = OracleLoop(ranker, fold.train, fold.n_grades), list[float]()
    while sum(times) < seconds:
        before, began = len(ranker.weight), clock()
        loop.run_round()
        if len(ranker.weight) > before:
            times.append(clock() - began)
    return min(times)


SECTION = Section(
    "growth",
    "ms a round",
    "time per round at round t, of rounds that tell a pair; the history was learned by a small network",
    columns,
    lambda effort: len(all_rounds(effort)) * len(effort.queries) + len(effort.at),
    measure,
)
