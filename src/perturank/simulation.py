"""The compiled loop: query → ranker.rank → user.click → ranker.learn, with metrics looking on.

One integer decides everything: each concern (queries, users, lists, noise, start) has its own stream
of keys, folded with the round, so that changing the ranker never changes the users, and a run that
was interrupted goes on with the same bits. Rounds run in chunks; a chunk's length changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from perturank import machine, metrics
from perturank.catalogue import load_published
from perturank.core import (
    LEARNING,
    LISTS,
    QUERIES,
    START,
    USERS,
    Array,
    ClickModel,
    Forgets,
    Interaction,
    Key,
    Query,
    Ranker,
    Ranking,
    Remembers,
    check_room,
    streams,
    traced,
    with_settings,
)
from perturank.datasets import Dataset, Fold
from perturank.datasets.dataset import Head, fingerprint
from perturank.errors import BadInput
from perturank.evaluation import Doubts, Exam, OrderExam
from perturank.hyperparameters import Settings
from perturank.parts import batches
from perturank.runs import Progress, Run

LONGEST_CHUNK = 1000
SECONDS_PER_CHUNK = 0.5
MOST_BUCKETS = 4
WORTH_A_BUCKET = 1.75  # each bucket is compiled, a fifth of all there is: the next must be so many times longer
ROWS_TO_A_SHELF = 4096
QUERIES_TO_A_SHELF = 256
LEAST_ROOM = 400  # rounds; growing a history compiles the loop again


@dataclass(frozen=True)
class Plan:
    """Everything that decides a run."""

    ranker: str
    settings: Settings
    user: ClickModel
    fold: Fold
    rounds: int
    seed: int = 1
    evaluate_at: tuple[int, ...] = ()
    top: int = 10
    evaluate_on: str = "test"
    batch: int = 1  # rounds that are learned together, with one fit
    keeps_orders: bool = False  # scores and certain orders of held-out queries, at every evaluation

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("top", 1), ("seed", 0), ("batch", 1)):
            if getattr(self, name) < least:
                raise BadInput(f"{name} is {getattr(self, name)}", f"it must be {least} or more")
        if any(t < 1 or t > self.rounds for t in self.evaluate_at):
            raise BadInput(
                f"evaluate_at is {','.join(map(str, self.evaluate_at))}", f"rounds go from 1 to {self.rounds}"
            )
        odd = next((t for t in self.stops if t % self.batch), None)
        if self.batch > LONGEST_CHUNK or odd is not None:
            raise BadInput(
                f"batch is {self.batch}", f"it must divide {odd or LONGEST_CHUNK}: batches are learned whole"
            )
        if self.evaluate_on not in ("test", "validation"):
            raise BadInput(f"evaluate_on is {self.evaluate_on!r}", "it must be 'test' or 'validation'")
        self._check_stream()
        self._check_truth()

    @property
    def stops(self) -> tuple[int, ...]:
        """The rounds after which the ranker is evaluated: those asked for and the last."""
        return tuple(sorted({*self.evaluate_at, self.rounds}))

    @property
    def judged(self) -> np.ndarray:
        """What the user judges the training documents by: their grades, or their true scores; [n]."""
        scores = self.fold.true_scores if self.user.judges_by == "scores" else None
        return np.asarray(self.fold.train.labels, np.int32) if scores is None else scores

    def _check_stream(self) -> None:
        train, name = self.fold.train, self.fold.name
        if train.head is not None and self.rounds > train.n_queries - train.head.n:
            raise BadInput(
                f"{name} has {train.n_queries - train.head.n} new queries, too few for {self.rounds} rounds",
                f"ask for fewer rounds, or for a longer stream: {name}:{self.rounds}",
            )

    def _check_truth(self) -> None:
        if self.user.judges_by == "scores" and self.fold.theta_star is None:
            raise BadInput(
                f"{self.user.spec} users judge documents by their true scores, which {self.fold.name} does not have",
                "use data with a known truth, such as synthetic-linear, or other users",
            )


class Shelf(eqx.Module):
    """A data set on the device: flat rows, padded at the end so that every slice of a bucket fits."""

    features: Array
    grades: Array
    starts: Array
    lengths: Array
    buckets: Array
    ideals: Array
    n_queries: Array
    sizes: tuple[int, ...] = eqx.field(static=True)
    head: Head | None = eqx.field(static=True)

    @classmethod
    def of(cls, data: Dataset, top: int) -> Shelf:
        """Return the data set with its queries sorted into at most four sizes.

        Rows and queries are padded to round numbers, so that the folds of a collection share one
        compiled program.
        """
        lengths = np.asarray(data.lengths)
        sizes = bucket_sizes(lengths, top)
        n_rows = _rounded(data.n_documents + sizes[-1], ROWS_TO_A_SHELF)
        n_queries = _rounded(data.n_queries, QUERIES_TO_A_SHELF)
        ideals = metrics.ideal_dcgs(np.asarray(data.labels), np.asarray(data.offsets), top)
        return cls(
            _padded(np.asarray(data.features, np.float32), n_rows),
            _padded(np.asarray(data.labels, np.int32), n_rows),
            _padded(np.asarray(data.offsets[:-1], np.int32), n_queries),
            _padded(lengths.astype(np.int32), n_queries),
            _padded(np.searchsorted(sizes, lengths).astype(np.int32), n_queries),
            _padded(ideals.astype(np.float32), n_queries),
            jnp.asarray(data.n_queries),
            sizes,
            data.head,
        )

    def query(self, q: Array, size: int) -> tuple[Query, Array]:
        """Return query q in a bucket of this size, and its grades [size]."""
        start = self.starts[q]
        mask = jnp.arange(size) < self.lengths[q]
        rows = (start + jnp.arange(size)).astype(jnp.uint32)
        ids = jnp.stack([rows, jnp.zeros_like(rows)], axis=1)
        features = lax.dynamic_slice_in_dim(self.features, start, size)
        return Query(features, mask, ids, jnp.zeros(size)), lax.dynamic_slice_in_dim(self.grades, start, size)


def bucket_sizes(lengths: np.ndarray, top: int) -> tuple[int, ...]:
    """Return the lengths to which queries are padded: rounded quartiles, without those that save little."""
    cuts = np.quantile(lengths, np.linspace(0, 1, MOST_BUCKETS + 1)[1:], method="higher")
    steps = sorted(m << e for m in (4, 5, 6, 7) for e in range(2, 24))  # 16, 20, 24, 28, 32, 40, …
    sizes = [next(step for step in steps if step >= max(cut, top)) for cut in cuts]
    kept = [sizes[-1]]
    for size in reversed(sizes[:-1]):
        if kept[0] >= WORTH_A_BUCKET * size:
            kept.insert(0, size)
    return tuple(kept)


def _rounded(n: int, to: int) -> int:
    return -(-n // to) * to


def _padded(array: np.ndarray, n: int) -> Array:
    return jax.device_put(np.pad(array, ((0, n - len(array)), *((0, 0),) * (array.ndim - 1))))


class World(eqx.Module):
    """What a chunk of rounds reads and never changes."""

    shelf: Shelf
    user: ClickModel
    keys: Array
    top: int = eqx.field(static=True)
    scores: Array | None = None  # true scores [n], for a user who judges by them


def drawn_query(key: Key, t: Array, n_queries: Array | int, head: Head | None) -> Array:
    """Return the query of round t, a pure function of the stream of keys and the round.

    Where there is a head, the queries behind it come one after another, each seed beginning at one of
    its own; a round that shows a query of the head skips one.
    """
    draw = jax.random.fold_in(key, t)
    if head is None:
        return jax.random.randint(draw, (), 0, n_queries)
    n_new = n_queries - head.n
    first = jax.random.randint(jax.random.fold_in(key, 0), (), 0, n_new)  # rounds count from 1
    share, place = jax.random.split(draw)
    repeated = jax.random.randint(place, (), 0, head.n)
    return jnp.where(jax.random.bernoulli(share, head.p), repeated, head.n + (first + t - 1) % n_new)


def shown_list(world: World, ranker: Ranker, t: Array) -> tuple[Query, Ranking, Array, Array, Array]:
    """Return the shown documents of round t, their ranking, grades, ideal DCG, and the list's mis-ordered pairs."""
    shelf = world.shelf
    q = drawn_query(world.keys[QUERIES], t, shelf.n_queries, shelf.head)
    key = jax.random.fold_in(world.keys[LISTS], t)

    def in_bucket(size: int) -> Callable[[], tuple[Query, Ranking, Array, Array]]:
        def branch() -> tuple[Query, Ranking, Array, Array]:
            query, grades = shelf.query(q, size)
            ranking = ranker.rank(query, key, world.top)
            shown = query.take(ranking.order)
            regret = metrics.misordered_shown(ranking.order, shown.mask, grades, ranker.score(query), query.mask)
            return shown, ranking, grades[ranking.order], jnp.asarray(regret, jnp.float32)

        return branch

    shown, ranking, grades, regret = lax.switch(shelf.buckets[q], [in_bucket(size) for size in shelf.sizes])
    return shown, ranking, grades, shelf.ideals[q], regret


def seen_in(world: World, ranker: Ranker, t: Array) -> tuple[Interaction, Array, Array]:
    """Return what is seen in round t, its NDCG and its mis-ordered pairs."""
    shown, ranking, grades, ideal, regret = shown_list(world, ranker, t)
    judged = grades if world.scores is None else world.scores[shown.ids[:, 0]]  # ids are row numbers
    clicks = world.user.click(judged, shown.mask, jax.random.fold_in(world.keys[USERS], t))
    return Interaction(shown, clicks, ranking.memo), metrics.ndcg(grades, shown.mask, ideal), regret


@eqx.filter_jit(donate="all-except-first")
def chunk(
    world: World, ranker: Ranker, ndcgs: Array, regrets: Array, start: Array, n: Array
) -> tuple[Ranker, Array, Array]:
    """Return the ranker after rounds start + 1 … start + n, with each round's NDCG and mis-ordered pairs."""
    dynamic, static = eqx.partition(ranker, eqx.is_array)

    def one(i: Array, state: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        arrays, ndcgs, regrets = state
        ranker = eqx.combine(arrays, static)
        t = start + i + 1
        interaction, ndcg, regret = seen_in(world, ranker, t)
        ranker = ranker.learn(interaction, jax.random.fold_in(world.keys[LEARNING], t))
        return eqx.filter(ranker, eqx.is_array), ndcgs.at[i].set(ndcg), regrets.at[i].set(regret)

    arrays, ndcgs, regrets = lax.fori_loop(0, n, one, (dynamic, ndcgs, regrets))
    return eqx.combine(arrays, static), ndcgs, regrets


@eqx.filter_jit(donate="all-except-first")
def batched_chunk(
    world: World, ranker: Ranker, ndcgs: Array, regrets: Array, start: Array, n: Array, size: int
) -> tuple[Ranker, Array, Array]:
    """Return the same as `chunk` where so many rounds are learned together, after the last of them."""
    dynamic, static = eqx.partition(ranker, eqx.is_array)

    def one(b: Array, state: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        arrays, ndcgs, regrets = state
        ranker: Any = eqx.combine(arrays, static)
        first = start + b * size + 1
        # One after another: beside one another their bits would depend on how many there are.
        seen, found, wrong = lax.map(lambda i: seen_in(world, ranker, first + i), jnp.arange(size))
        keys = jax.vmap(lambda i: jax.random.fold_in(world.keys[LEARNING], first + i))(jnp.arange(size))
        kept: Any = ranker.remembered(keys[0]) if isinstance(ranker, Forgets) else ranker
        ranker = batches.learned(kept, seen, keys, jnp.asarray(size))
        ndcgs = lax.dynamic_update_slice_in_dim(ndcgs, found, b * size, 0)
        regrets = lax.dynamic_update_slice_in_dim(regrets, wrong, b * size, 0)
        return eqx.filter(ranker, eqx.is_array), ndcgs, regrets

    arrays, ndcgs, regrets = lax.fori_loop(0, n // size, one, (dynamic, ndcgs, regrets))
    return eqx.combine(arrays, static), ndcgs, regrets


def simulate(
    plan: Plan,
    *,
    on_progress: Callable[[int], None] | None = None,
    checkpoint: Path | None = None,
    save_every: float = 0.0,
    longest_chunk: int = LONGEST_CHUNK,
) -> Run:
    """Return the run of this plan; with a checkpoint file it goes on where an earlier call stopped.

    The file is written after a chunk of rounds, if so many seconds have passed since it was last.
    """
    judged = plan.judged
    plan.user.check(judged)
    keys = streams(plan.seed)
    start = load_published(plan.ranker).make(plan.fold.n_features, keys[START], plan.settings)
    progress = Progress.opened(checkpoint, identity(plan), start)
    if progress.round > plan.rounds:
        raise BadInput(f"{checkpoint} holds {progress.round} rounds already", f"ask for {progress.round} or more")
    scores = jnp.asarray(judged) if plan.user.judges_by == "scores" else None
    world = World(Shelf.of(plan.fold.train, plan.top), plan.user, keys, plan.top, scores)
    held_out = getattr(plan.fold, plan.evaluate_on)
    exam, order_exam, doubts = Exam.of(held_out, plan.seed), OrderExam.of(held_out), Doubts.of(plan.fold.train)
    longest_chunk = min(longest_chunk, LONGEST_CHUNK)
    longest_chunk = max(longest_chunk // plan.batch, 1) * plan.batch
    n_next = min(longest_chunk, 50)
    compiled: set[Any] = set()
    saved = time.perf_counter()
    while progress.round < plan.rounds:
        stop = next(t for t in plan.stops if t > progress.round)
        n = min(stop - progress.round, _rounded(n_next, plan.batch))
        ranker = _roomy(progress.ranker, n, plan.top)
        shapes = _shapes(ranker)
        if shapes not in compiled:  # an empty chunk compiles and changes nothing
            ranker = rounds_done(world, ranker, progress.round, 0, plan.batch)[0]
            compiled.add(shapes)
        began = time.perf_counter()
        ranker, ndcgs, regrets = rounds_done(world, ranker, progress.round, n, plan.batch)
        seconds = time.perf_counter() - began
        progress.advance(ranker, ndcgs, regrets, seconds)
        n_next = max(1, min(longest_chunk, 4 * n_next, int(n * SECONDS_PER_CHUNK / seconds) + 1))
        if progress.round == stop:
            seen = traced(ranker)
            progress.record(
                exam.ndcg(seen, plan.top),
                doubts.share(seen),
                doubts.width(seen),
                order_exam.orders(seen),
                keeps_orders=plan.keeps_orders,
            )
        if checkpoint is not None and time.perf_counter() - saved >= save_every:
            progress.save(checkpoint)
            saved = time.perf_counter()
        if on_progress is not None:
            on_progress(n)
    return progress.run(plan.seed, plan.rounds, exam.random_ndcg(plan.top))


def _roomy(ranker: Ranker, n: int, top: int) -> Ranker:
    """Return the ranker with room for n more rounds; where it must grow, it grows for many at once."""
    if not isinstance(ranker, Remembers):
        return ranker
    if ranker.is_bounded:
        return ranker.with_room(LONGEST_CHUNK, top)
    if _shapes(ranker.with_room(n, top)) == _shapes(ranker):
        return ranker
    return ranker.with_room(max(n, LEAST_ROOM), top)


def _shapes(ranker: Ranker) -> tuple[tuple[int, ...], ...]:
    return tuple(leaf.shape for leaf in jax.tree.leaves(eqx.filter(ranker, eqx.is_array)))


def rounds_done(
    world: World, ranker: Ranker, start: int, n: int, batch: int = 1
) -> tuple[Ranker, np.ndarray, np.ndarray]:
    """Return the ranker after n more rounds, and each round's NDCG and mis-ordered pairs; the old ranker is used up."""
    settings, blank = ranker.settings, jnp.zeros(LONGEST_CHUNK)
    state = traced(ranker), blank, blank + 0, jnp.asarray(start), jnp.asarray(n)
    ranker, ndcgs, regrets = chunk(world, *state) if batch == 1 else batched_chunk(world, *state, batch)
    check_room(ranker)
    return with_settings(ranker, settings), np.asarray(ndcgs)[:n], np.asarray(regrets)[:n]


def identity(plan: Plan) -> dict[str, Any]:
    """Return what a run must share with a checkpoint to go on from it: all of the plan but its length."""
    data = plan.fold.train
    return {
        "ranker": plan.ranker,
        "settings": plan.settings.identity(),
        "clicks": plan.user.spec,
        "data": f"{plan.fold.name} fold {plan.fold.fold}: {fingerprint(data)}",
        "seed": plan.seed,
        "top": plan.top,
        "evaluate_on": plan.evaluate_on,
        **({"batch": plan.batch} if plan.batch > 1 else {}),
        **({"keeps_orders": True} if plan.keeps_orders else {}),
        "threads": machine.n_threads(),
    }
