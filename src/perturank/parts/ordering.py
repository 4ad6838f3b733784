"""A list from scores or certain orders, with the exact probability of what is shown where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from perturank.core import Array, Key, Limits, Ranking
from perturank.hyperparameters import is_zero
from perturank.parts import certainty, draws

Sort = Literal["topological", "blocks"]


class Draw(eqx.Module):
    """order [k], free [k] (how many could have stood at each place), and the log-probability of each place [k]."""

    order: Array
    free: Array
    log_p: Array | None

    @property
    def log_propensity(self) -> Array | None:
        """The log-probability of the whole list."""
        return None if self.log_p is None else jnp.sum(self.log_p, axis=-1)

    def ranking(self, mask: Array, memo: Any = None) -> Ranking:
        """Return the ranking of a query with this mask."""
        n = jnp.minimum(jnp.sum(mask, dtype=jnp.int32), self.order.shape[0])
        return Ranking(self.order, self.free, n, self.log_p, memo)


def nth(chosen: Array, n: Array) -> Array:
    """Return the position of the n-th (from 0) true entry; [V].

    First the block that holds it, then the place in the block, by counting pairs of blocks and of
    places: XLA's cumsum takes ten times as long.
    """
    v = chosen.shape[0]
    width = 1 << (v.bit_length() // 2)
    blocks = jnp.pad(chosen, (0, -v % width)).reshape(-1, width).astype(jnp.int32)
    up_to = _running_sum(jnp.sum(blocks, axis=1))
    block = jnp.sum(up_to <= n)
    rest = n - jnp.where(block > 0, up_to[block - 1], 0)
    return block * width + jnp.sum(_running_sum(blocks[block]) <= rest)


def _running_sum(counts: Array) -> Array:
    return jnp.sum(jnp.where(jnp.tri(counts.shape[0], dtype=bool), counts[None, :], 0), axis=1)


def _uniform_pick(candidates: Array, lot: Array) -> tuple[Array, Array]:
    """Return one of the candidates, uniformly by a lot in [0, 1), and how many there were."""
    n = jnp.sum(candidates, dtype=jnp.int32)
    return nth(candidates, jnp.minimum((lot * n).astype(jnp.int32), n - 1)), n


def _allowed(candidates: Array, left: Array, r: Array, limits: Limits | None) -> Array:
    """Return which of these documents [V] may stand at place r when those of `left` [V] are not placed yet."""
    return candidates if limits is None else limits.within(candidates, left, r)


class _Chances(NamedTuple):
    """The random numbers of a list's places, [k] each, and the share of places that any document may take."""

    lots: Array
    floor_lots: Array | None  # None where there is no floor
    floor: Array | None

    @classmethod
    def of(cls, key: Key, k: int, floor: Array | None) -> _Chances:
        lots = jax.random.uniform(key, (k,))
        return cls(lots, None if floor is None else jax.random.uniform(jax.random.fold_in(key, 1), (k,)), floor)

    def pick(self, free: Array, left: Array, r: Array, limits: Limits | None) -> tuple[Array, Array, Array]:
        """Return a document for place r, how many of the free ones [V] may stand there, and the log-probability.

        It is one of the free documents, or, with probability `floor`, any that is left [V].
        """
        allowed = _allowed(free, left, r, limits)
        n = jnp.sum(allowed, dtype=jnp.int32)
        if self.floor is None or self.floor_lots is None:
            pick, _ = _uniform_pick(allowed, self.lots[r])
            log_p = -jnp.log(jnp.maximum(n, 1))
            if limits is None:
                return pick, n, log_p
            pick = limits.pick(allowed, left, pick)
            return pick, n, limits.log_p(allowed, pick, log_p)
        anyone = _allowed(left, left, r, limits)
        pick, _ = _uniform_pick(jnp.where(self.floor_lots[r] < self.floor, anyone, allowed), self.lots[r])
        pick = pick if limits is None else limits.pick(allowed, left, pick)
        p = (1 - self.floor) * allowed[pick] / jnp.maximum(n, 1)
        p = p + self.floor * anyone[pick] / jnp.maximum(jnp.sum(anyone), 1)
        return pick, n, jnp.where(n > 0, jnp.log(p), 0.0)


def _padding(placed: Array) -> Array:
    """Return a row to fill a place with when no document is left: one not placed yet."""
    return jnp.argmin(placed)


def topological(
    n_before: Array,
    after: Callable[[Array], Array],
    mask: Array,
    key: Key,
    k: int,
    limits: Limits | None = None,
    floor: Array | None = None,
) -> Draw:
    """Return a list that follows every certain order and is uniformly random otherwise.

    At each place a document is picked uniformly among the free ones, which no unplaced document
    certainly precedes; so the probability of the list is Π 1/|free|. With a floor ε a place goes,
    with probability ε, to any document left, whatever is certain. n_before [V] counts certain
    predecessors; `after(i)` [V] says which documents i certainly precedes.
    """
    chances = _Chances.of(key, k, floor)

    def place(r: Array, state: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        order, free, log_p, waiting, placed = state
        left = mask & ~placed
        pick, n, log = chances.pick(left & (waiting == 0), left, r, limits)
        pick = jnp.where(n > 0, pick, _padding(placed))
        return (
            order.at[r].set(pick),
            free.at[r].set(n),
            log_p.at[r].set(log),
            waiting - after(pick),
            placed.at[pick].set(True),
        )

    state = (*_empty_list(k), n_before, jnp.zeros(mask.shape[0], bool))
    order, free, log_p, _, _ = lax.fori_loop(0, k, place, state)
    return Draw(order, free, log_p)


def free_sets(precedes: Array, mask: Array, order: Array, limits: Limits) -> Array:
    """Return F[r, i]: document i may stand at place r of this order [k] when those above it are placed; [k, V].

    `topological` and `blocks` draw from these sets; `precedes` [V, V] says what no list shows the other way round. A
    floor of exploration lets others stand there too, now and then.
    """

    def place(state: tuple[Array, Array], at: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        (waiting, placed), (r, pick) = state, at
        left = mask & ~placed
        allowed = _allowed(left & (waiting == 0), left, r, limits)
        return (waiting - precedes[pick], placed.at[pick].set(True)), allowed

    start = jnp.sum(precedes, axis=0, dtype=jnp.int32), jnp.zeros(mask.shape[0], bool)
    return lax.scan(place, start, (jnp.arange(order.shape[0]), order))[1]


def _empty_list(k: int) -> tuple[Array, Array, Array]:
    return jnp.zeros(k, jnp.int32), jnp.zeros(k, jnp.int32), jnp.zeros(k)


def blocks(
    scores: Array,
    certain: Array,
    mask: Array,
    key: Key,
    k: int,
    limits: Limits | None = None,
    floor: Array | None = None,
) -> Draw:
    """Return a list of blocks in score order, each shuffled whole; `floor` as in `topological`.

    A block is a connected component of the uncertain pairs under the transitive closure of
    `certain` [V, V]; the closure makes blocks intervals of the score order.
    """
    order, block = _blocks_by_score(scores, certain, mask)
    if limits is not None or floor is not None:
        return _blocks_by_place(_by_document(order, block), mask, key, k, limits, floor)
    v = mask.shape[0]
    shuffled = jnp.lexsort((jax.random.uniform(key, (v,)), block))
    real = mask[order]
    size_left = jnp.sum(
        (block[None, :] == block[:, None]) & real[None, :] & (jnp.arange(v)[None, :] >= jnp.arange(v)[:, None]), 1
    )
    free = jnp.where(real, size_left, 0)[:k].astype(jnp.int32)
    # Real documents precede padding in every block: padding stands in blocks of its own at the end.
    return Draw(order[shuffled][:k].astype(jnp.int32), free, -jnp.log(jnp.maximum(free, 1)))


def _blocks_by_score(scores: Array, certain: Array, mask: Array) -> tuple[Array, Array]:
    """Return the documents in score order, padding last, and the number of the block of each; [V], [V]."""
    order = jnp.argsort(jnp.where(mask, -scores, jnp.inf), stable=True)
    sure = certain[order][:, order] | ~mask[order][None, :]
    # A boundary lies after position p when everything up to p certainly precedes everything beyond.
    crossing = jnp.cumsum(jnp.cumsum(~sure, axis=0)[:, ::-1], axis=1)[:, ::-1]
    ends = jnp.concatenate([jnp.diagonal(crossing, offset=1) == 0, jnp.ones(1, bool)])
    return order, jnp.cumsum(ends) - ends  # number of boundaries before each position


def _by_document(order: Array, block: Array) -> Array:
    return jnp.zeros_like(block).at[order].set(block)


def precedes(sort: Sort, scores: Array, certain: Array, mask: Array) -> Array:
    """Return P[i, j]: no list shows document j before i, for either way to sort; [V, V]."""
    if sort == "topological":
        return certain
    block = _by_document(*_blocks_by_score(scores, certainty.closure(certain), mask))
    return (block[:, None] < block[None, :]) & mask[:, None] & mask[None, :]


def _blocks_by_place(block: Array, mask: Array, key: Key, k: int, limits: Limits | None, floor: Array | None) -> Draw:
    """Return a list that takes at each place any document of the first block [V] left that its limits allow."""
    chances = _Chances.of(key, k, floor)

    def place(r: Array, state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        order, free, log_p, placed = state
        left = mask & ~placed
        first = jnp.min(jnp.where(left, block, mask.shape[0]))
        pick, n, log = chances.pick(left & (block == first), left, r, limits)
        pick = jnp.where(n > 0, pick, _padding(placed))
        return order.at[r].set(pick), free.at[r].set(n), log_p.at[r].set(log), placed.at[pick].set(True)

    order, free, log_p, _ = lax.fori_loop(0, k, place, (*_empty_list(k), jnp.zeros(mask.shape[0], bool)))
    return Draw(order, free, log_p)


def plackett_luce(scores: Array, mask: Array, key: Key, k: int) -> tuple[Draw, Array]:
    """Return a list drawn from softmax(scores) without replacement, and log Σ e^score of what was left; [k]."""
    lots = draws.gumbel(key, scores.shape)
    order = lax.top_k(jnp.where(mask, scores + lots, -jnp.inf), k)[1]
    real = jnp.arange(k) < jnp.sum(mask)
    # In logarithms: e^score underflows where a prior sets scores far apart.
    height = jnp.where(mask, scores, -jnp.inf)
    rest = jax.nn.logsumexp(height.at[order].set(-jnp.inf))
    below = jnp.where(jnp.tri(k, dtype=bool).T, height[order], -jnp.inf)
    log_left = jnp.where(real, jnp.logaddexp(rest, jax.nn.logsumexp(below, axis=1)), 0.0)
    return Draw(order, n_left(mask, k), jnp.where(real, scores[order] - log_left, 0.0)), log_left


def limited_plackett_luce(scores: Array, mask: Array, key: Key, k: int, limits: Limits) -> tuple[Draw, Array]:
    """Return a list drawn place by place from softmax(scores) of what its limits allow, and log Σ e^score of that."""
    lots = jax.random.gumbel(key, (k, scores.shape[0]))  # anew for each place: what is allowed changes

    def place(r: Array, state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        order, free, log_left, placed = state
        left = mask & ~placed
        allowed = limits.within(left, left, r)
        height = jnp.where(allowed, scores, -jnp.inf)
        n = jnp.sum(allowed, dtype=jnp.int32)
        pick = jnp.where(n > 0, limits.pick(allowed, left, jnp.argmax(height + lots[r])), _padding(placed))
        total = jnp.where(n > 0, -limits.log_p(allowed, pick, -jax.nn.logsumexp(height)), 0.0)
        return order.at[r].set(pick), free.at[r].set(n), log_left.at[r].set(total), placed.at[pick].set(True)

    zeros = jnp.zeros(k, jnp.int32)
    state = (zeros, zeros, jnp.zeros(k), jnp.zeros(mask.shape[0], bool))
    order, free, log_left, _ = lax.fori_loop(0, k, place, state)
    return Draw(order, free, jnp.where(free > 0, scores[order] - log_left, 0.0)), log_left


def n_left(mask: Array, k: int) -> Array:
    """Return how many documents are left at each place; [k]."""
    return jnp.maximum(jnp.sum(mask, dtype=jnp.int32) - jnp.arange(k, dtype=jnp.int32), 0)


def epsilon_greedy(
    scores: Array, mask: Array, epsilon: Array | float, key: Key, k: int, limits: Limits | None = None
) -> Draw:
    """Return a list that takes at each place a uniform document with probability ε, else the best one left.

    Ties for the best are broken uniformly.
    """
    v = mask.shape[0]
    keys = jax.random.split(key, 3)
    explores = jax.random.uniform(keys[0], (k,)) < epsilon
    # One lot a document suffices, unless limits change what may be drawn: those unplaced have lost every draw alike.
    n_lots = 1 if limits is None else k
    explore_lots = jax.random.uniform(keys[1], (n_lots, v))
    tie_lots = jax.random.uniform(keys[2], (n_lots, v))

    def place(r: Array, state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        order, free, log_p, unplaced = state
        unshown = unplaced & mask
        left = _allowed(unshown, unshown, r, limits)
        n = jnp.sum(left, dtype=jnp.int32)
        best = left & (scores == jnp.max(jnp.where(left, scores, -jnp.inf)))
        explore_lot, tie_lot = explore_lots[r % n_lots], tie_lots[r % n_lots]
        pick = jnp.argmax(jnp.where(explores[r], jnp.where(left, explore_lot, -1.0), jnp.where(best, tie_lot, -1.0)))
        pick = pick if limits is None else limits.pick(left, unshown, pick)
        pick = jnp.where(n > 0, pick, jnp.argmax(unplaced))
        p = epsilon / jnp.maximum(n, 1) + (1 - epsilon) * best[pick] / jnp.maximum(jnp.sum(best), 1)
        log = jnp.log(p) if limits is None else limits.log_p(left, pick, jnp.log(p))
        n_free = jnp.sum(best, dtype=jnp.int32) if is_zero(epsilon) else n
        log_p = log_p.at[r].set(jnp.where(n > 0, log, 0.0))
        return order.at[r].set(pick), free.at[r].set(n_free), log_p, unplaced.at[pick].set(False)

    state = (jnp.zeros(k, jnp.int32), jnp.zeros(k, jnp.int32), jnp.zeros(k), jnp.ones(v, bool))
    order, free, log_p, _ = lax.fori_loop(0, k, place, state)
    return Draw(order, free, log_p)


def tops(scores: Array, mask: Array, key: Key, k: int) -> Array:
    """Return the k best documents of every ranker, ties broken at random; [R, V] -> [R, k]."""
    # Padding comes after all documents: it is left with the lowest score of all.
    scores = jnp.where(mask, scores, -jnp.inf)
    n_more = min(k + 1, scores.shape[1])
    # Row by row: a batched top_k is slower by an order of magnitude.
    best, rows = (jnp.stack(found) for found in zip(*(lax.top_k(row, n_more) for row in scores), strict=True))
    tied = jnp.any((best[:, 1:] == best[:, :-1]) & (best[:, 1:] > -jnp.inf))
    return lax.cond(tied, lambda: _tops_of_tied(scores, key, k), lambda: rows[:, :k])


def _tops_of_tied(scores: Array, key: Key, k: int) -> Array:
    """Return the k best of every ranker, ties broken at random, by k passes of argmax; [R, V] -> [R, k]."""
    n_rankers = scores.shape[0]
    lots = draws.uniform(key, scores.shape)

    def place(r: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        order, left = state
        best = jnp.max(jnp.where(left, scores, -jnp.inf), axis=1, keepdims=True)
        pick = jnp.argmax(jnp.where(left, jnp.where(scores == best, lots, -1.0), -2.0), axis=1)
        return order.at[:, r].set(pick), left.at[jnp.arange(n_rankers), pick].set(False)

    start = (jnp.zeros((n_rankers, k), jnp.int32), jnp.ones(scores.shape, bool))
    return lax.fori_loop(0, k, place, start)[0]


def team_draft(lists: Array, mask: Array, key: Key, k: int) -> tuple[Draw, Array]:
    """Return an interleaved list and the team (ranker) that gave each place; lists [R, k] -> [k], [k].

    At each place one of the rankers with the fewest documents so far is drawn and adds its best
    unplaced document. No propensity: the lists behind it are random too.
    """
    n_rankers = lists.shape[0]
    lots = jax.random.uniform(key, (k,))

    def place(r: Array, state: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        order, free, teams, counts, placed = state
        nexts = jnp.take_along_axis(lists, jnp.argmin(placed[lists], axis=1)[:, None], axis=1)[:, 0]
        drafting = counts == jnp.min(counts)
        team, _ = _uniform_pick(drafting, lots[r])
        pick = nexts[team]
        earlier = jnp.tril(nexts[:, None] == nexts[None, :], -1) & drafting[None, :]
        n_free = jnp.sum(drafting & ~jnp.any(earlier, axis=1), dtype=jnp.int32)
        return (
            order.at[r].set(pick),
            free.at[r].set(jnp.where(mask[pick], n_free, 0)),
            teams.at[r].set(team),
            counts.at[team].add(1),
            placed.at[pick].set(True),
        )

    zeros = jnp.zeros(k, jnp.int32)
    start = (zeros, zeros, zeros, jnp.zeros(n_rankers, jnp.int32), jnp.zeros(mask.shape[0], bool))
    order, free, teams, _, _ = lax.fori_loop(0, k, place, start)
    return Draw(order, free, None), teams


def probabilistic_interleaving(
    scores: Array, mask: Array, key: Key, k: int, tau: Array | float = 3.0
) -> tuple[Draw, Array]:
    """Return a list and each ranker's share of each place; scores [R, V] -> [k], [R, k].

    At each place a ranker is drawn uniformly, and a document from its softmax over ranks, 1/rank^τ.
    The share of a place is the probability that the ranker gave it, given the document (Hofmann's
    marginalisation over assignments).
    """
    n_rankers, v = scores.shape
    keys = jax.random.split(key, 3)
    lots = jax.random.uniform(keys[0], scores.shape)
    by_rank = jnp.lexsort((lots, -jnp.where(mask, scores, -jnp.inf)), axis=1)
    rank = jnp.zeros(scores.shape, jnp.int32).at[jnp.arange(n_rankers)[:, None], by_rank].set(jnp.arange(1, v + 1))
    log_weight = -tau * jnp.log(rank.astype(jnp.float32))
    rankers = jax.random.randint(keys[1], (k,), 0, n_rankers)
    gumbels = jax.random.gumbel(keys[2], (k, v))

    def place(r: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        order, shares, unplaced = state
        left = unplaced & mask
        log_p = jax.nn.log_softmax(jnp.where(left, log_weight, -jnp.inf), axis=1)
        pick = jnp.argmax(jnp.where(left, log_p[rankers[r]] + gumbels[r], -jnp.inf))
        pick = jnp.where(jnp.any(left), pick, jnp.argmax(unplaced))
        share = jnp.where(jnp.any(left), jax.nn.softmax(jnp.where(left[pick], log_p[:, pick], 0.0)), 0.0)
        return order.at[r].set(pick), shares.at[:, r].set(share), unplaced.at[pick].set(False)

    start = (jnp.zeros(k, jnp.int32), jnp.zeros((n_rankers, k)), jnp.ones(v, bool))
    order, shares, _ = lax.fori_loop(0, k, place, start)
    return Draw(order, n_left(mask, k), None), shares
