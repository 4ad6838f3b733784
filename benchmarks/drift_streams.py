"""Streams of simulated users who want something else from some round on, and rankers that learn from them.

Users ask the queries of `intents.py`. In a third of the streams their intent changes at once, in a third a growing
share of them has the new one, in a third nothing changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.intents import N_INTENTS, load_intents
from perturank import metrics
from perturank.catalogue import published
from perturank.clicks import user
from perturank.core import (
    LEARNING,
    LISTS,
    QUERIES,
    START,
    USERS,
    Array,
    ClickModel,
    Interaction,
    Query,
    Ranker,
    Ranking,
    Remembers,
    check_room,
    streams,
)
from perturank.drift import Watch
from perturank.parts.preferences import preference_weights
from perturank.service.learner.drift import FADED, MOST_WEIGHT
from perturank.service.log.spec import IN_A_SERVICE
from perturank.simulation import Shelf, drawn_query

Kind = Literal["abrupt", "gradual", "none", "fresh"]
KINDS: tuple[Kind, ...] = ("abrupt", "gradual", "none")
TOP, BLOCK, ROUNDS = 10, 50, 3000
AFTER = 1500  # rounds after a change within which an alarm is right, and for which a fresh ranker learns
GRADUAL = 750  # rounds until everybody has the new intent
ROOM = 3800, 15_488  # documents, pairs
SIGNALS = ("clicks", "first click", "best estimate", "agreement")
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("p2headrank", IN_A_SERVICE),
    "greedy": ("p2headrank", IN_A_SERVICE | {"noise_std": 0.0, "floor": 0.0}),
    "p2linrank": ("p2linrank", {}),
    "pdgd-linear": ("pdgd-linear", {}),
}
LOSSES = np.array([1 / (place * (place + 1)) for place in range(1, TOP)] + [1 / TOP], np.float32)


class Stream(NamedTuple):
    """Users who search so many times, and want something else from some round on."""

    kind: Kind
    number: int

    @property
    def seed(self) -> int:
        """The seed of all that is random in it."""
        return 1000 * ("abrupt", "gradual", "none", "fresh").index(self.kind) + self.number + 1

    @property
    def change(self) -> int | None:
        """The round after which the change begins; None: nothing changes."""
        if self.kind in ("none", "fresh"):
            return None
        return int(np.random.default_rng(self.number + 17).integers(20, 30)) * BLOCK

    @property
    def intents(self) -> tuple[int, int]:
        """The intent before and after."""
        before, after = list(itertools.permutations(range(N_INTENTS), 2))[self.number % 6]
        return (after, after) if self.kind == "fresh" else (before, after)

    @property
    def user(self) -> str:
        """Who clicks."""
        return ("informational", "navigational")[self.number // 6 % 2]


class Outcome(NamedTuple):
    """The signals of each round [T, 4], NaN where there is none, and the NDCG for both intents every 50 rounds."""

    signals: np.ndarray
    ndcg: np.ndarray


class Traffic(eqx.Module):
    """What decides the rounds of a stream."""

    shelf: Shelf
    user: ClickModel
    keys: Array
    grades: Array  # [2, n]
    change: Array
    gradual: Array


@dataclass
class Study:
    """All streams on one collection."""

    data: Path
    out: Path

    def __post_init__(self) -> None:
        """Read the queries."""
        self.queries, self.wanted = load_intents(self.data)
        self.shelf = Shelf.of(self.queries, TOP)
        offsets = np.asarray(self.queries.offsets)
        self.ideals = np.stack([metrics.ideal_dcgs(self.wanted[:, i], offsets, TOP) for i in range(N_INTENTS)])

    def outcome(self, arm: str, stream: Stream, reacts: bool = False) -> Outcome:
        """Return what became of a stream, from the folder if it is there."""
        if reacts and watched(Watch(), clicked(self.outcome(arm, stream).signals))[1] == 0:
            return self.outcome(arm, stream)  # there is nothing to react to
        path = self.out / f"{arm}{' forgets' if reacts else ''}-{stream.kind}-{stream.number}.npz"
        if not path.exists():
            found = self._run(arm, stream, reacts)
            np.savez(path, **found._asdict())
        with np.load(path) as kept:
            return Outcome(kept["signals"], kept["ndcg"])

    def _run(self, arm: str, stream: Stream, reacts: bool) -> Outcome:
        intents = list(stream.intents)
        grades = jnp.asarray(np.pad(self.wanted[:, intents].T, ((0, 0), (0, 512))).astype(np.int32))
        ideals = jnp.asarray(self.ideals[intents], jnp.float32)
        change = np.inf if stream.change is None else stream.change
        gradual = GRADUAL if stream.kind == "gradual" else 0
        traffic = Traffic(
            self.shelf, user(stream.user, 2), streams(stream.seed), grades, jnp.float32(change), jnp.float32(gradual)
        )
        ranker, watch = self._ranker(arm, stream.seed), Watch()
        signals, ndcgs = [], []
        for start in range(0, AFTER if stream.kind == "fresh" else ROUNDS, BLOCK):
            ranker, found = rounds(traffic, ranker, jnp.asarray(start), jnp.asarray(BLOCK))
            signals.append(np.asarray(found))
            watch, n_alarms = watched(watch, clicked(signals[-1]))
            if n_alarms and reacts:
                ranker = ranker.faded(FADED)  # type: ignore[attr-defined]
            ndcgs.append([float(best_ndcg(self.shelf, ranker, grades[i], ideals[i])) for i in (0, 1)])
        if isinstance(ranker, Remembers):
            check_room(ranker)
        return Outcome(np.concatenate(signals), np.array(ndcgs))

    def _ranker(self, arm: str, seed: int) -> Ranker:
        name, settings = ARMS[arm]
        entry = published(name)
        ranker = entry.make(self.queries.n_features, streams(seed)[START], entry.settings.changed(**settings))
        if isinstance(ranker, Remembers):  # at once, to compile once
            ranker = eqx.tree_at(lambda each: each.history, ranker, ranker.history.with_room(*ROOM))  # type: ignore[attr-defined]
        return ranker


@eqx.filter_jit(donate="all-except-first")
def rounds(traffic: Traffic, ranker: Ranker, start: Array, n: Array) -> tuple[Ranker, Array]:
    """Return the ranker after n more rounds, and their signals, each computed before the round was learned."""
    arrays, static = eqx.partition(ranker, eqx.is_array)
    shelf, keys = traffic.shelf, traffic.keys

    def one(i: Array, state: tuple[Any, Array]) -> tuple[Any, Array]:
        ranker, t = eqx.combine(state[0], static), start + i + 1
        q = drawn_query(keys[QUERIES], t, shelf.n_queries, None)
        query, _ = shelf.query(q, shelf.sizes[-1])
        ranking = ranker.rank(query, jax.random.fold_in(keys[LISTS], t), TOP)
        shown, key = query.take(ranking.order), jax.random.fold_in(keys[USERS], t)
        is_new = jax.random.bernoulli(jax.random.fold_in(key, 7), share_changed(traffic, t)).astype(int)
        clicks = traffic.user.click(traffic.grades[is_new][shelf.starts[q] + ranking.order], shown.mask, key)
        seen = Interaction(shown, clicks, ranking.memo)
        signals = state[1].at[i].set(signals_of(ranker.score(query), query, ranking, seen))
        ranker = ranker.learn(seen, jax.random.fold_in(keys[LEARNING], t))
        return eqx.filter(ranker, eqx.is_array), signals

    arrays, signals = lax.fori_loop(0, n, one, (arrays, jnp.zeros((BLOCK, len(SIGNALS)))))
    return eqx.combine(arrays, static), signals


def share_changed(traffic: Traffic, t: Array) -> Array:
    """Return the share of users who want something else in round t."""
    growing = jnp.clip((t - traffic.change) / jnp.maximum(traffic.gradual, 1), 0, 1)
    return jnp.where(traffic.gradual == 0, (t > traffic.change) * 1.0, growing)


def signals_of(scores: Array, query: Query, ranking: Ranking, seen: Interaction) -> Array:
    """Return the clicks, the reciprocal rank as shown and of the best estimate, the agreement with scores; [4]."""
    clicks, places = seen.clicks, jnp.arange(TOP)
    first, is_clicked = jnp.argmax(clicks), clicks.any()
    best = jnp.argsort(jnp.where(query.mask, -scores, jnp.inf), stable=True)[:TOP]
    assert ranking.log_p is not None
    weights = jnp.minimum(jnp.cumprod(ranking.order == best) * jnp.exp(-jnp.cumsum(ranking.log_p)), MOST_WEIGHT)
    least = jnp.where(is_clicked, weights[first] / (first + 1), 0.0)
    most = 1 - jnp.sum(jnp.where(places < jnp.where(is_clicked, first, TOP), weights * LOSSES, 0))
    pairs = preference_weights(seen, 1, "symmetric")
    gaps = scores[ranking.order][:, None] - scores[ranking.order][None, :]
    agreement = jnp.sum(pairs * ((gaps > 0) + 0.5 * (gaps == 0))) / jnp.sum(pairs)  # 0 / 0 is NaN: no pairs
    return jnp.stack([clicks.sum() * 1.0, jnp.where(is_clicked, 1 / (1 + first), 0.0), (least + most) / 2, agreement])


@eqx.filter_jit
def best_ndcg(shelf: Shelf, ranker: Ranker, grades: Array, ideals: Array) -> Array:
    """Return the mean NDCG@10 of the best estimate over all queries."""

    def one(q: Array) -> Array:
        query, _ = shelf.query(q, shelf.sizes[-1])
        best = jnp.argsort(jnp.where(query.mask, -ranker.score(query), jnp.inf))[:TOP]
        return metrics.ndcg(grades[shelf.starts[q] + best], query.mask[best], ideals[q])

    return lax.map(one, jnp.arange(ideals.shape[0])).mean()


def clicked(signals: np.ndarray) -> np.ndarray:
    """Return the signal that the service watches: of lists with a click that of the best estimate; [T]."""
    return np.where(signals[:, 0] > 0, signals[:, 2], np.nan)


def watched(watch: Watch, values: Iterable[float]) -> tuple[Watch, int]:
    """Return what is remembered after these values, and how often an alarm was due; the first one ends the block."""
    for value in values:
        watch = watch if np.isnan(value) else watch.after(float(value))
        if watch.fall is not None:
            return watch.again(), 1
    return watch, 0
