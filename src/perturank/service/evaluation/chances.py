"""How probable a model made other lists than it showed: by the versions that showed them, as the log has them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from perturank.core import Array, Limits, Query, Ranker
from perturank.service.evaluation.challengers import best_order, query_of
from perturank.service.evaluation.traffic import JudgedList, Traffic
from perturank.service.learner import checkpoint
from perturank.service.learner.replay import recall_from
from perturank.service.learner.state import State
from perturank.service.log import Log, snapshots
from perturank.service.log.records import Snapshot
from perturank.wire.specification import Exploration

DRAWS = 1000  # lists drawn again, to see how often each document stands at each place


class Chances(NamedTuple):
    """Of one list: the probability of B's first r documents, and of B's and the shown ones at their places; [k]."""

    reach: np.ndarray
    marginal_reach: np.ndarray | None = None
    marginal: np.ndarray | None = None


def chances(
    log: Log, traffic: Traffic, lists: Sequence[JudgedList], others: Sequence[list[int]], *, marginals: bool
) -> list[Chances | None]:
    """Return the chances of these lists of B; None where the version that showed a list cannot be had any more."""
    found: list[Chances | None] = [None] * len(lists)
    by_version = defaultdict(list)
    for number, each in enumerate(lists):
        by_version[each.version].append(number)
    for version, ranker in _rankers(log, traffic, set(by_version)):
        for number in by_version[version]:
            found[number] = _chances(ranker, lists[number], others[number], marginals)
    return found


def _rankers(log: Log, traffic: Traffic, versions: set[int]) -> Iterator[tuple[int, Ranker]]:
    """Yield the versions of a model: those that are stored, and the others from a replay, as far as that goes back."""
    left = set(versions)
    if 0 in left:
        left.discard(0)
        yield 0, traffic.spec.start()
    for version in sorted(left & set(snapshots.versions(log, traffic.model))):
        content = log.stored(snapshots.version_name(traffic.model, version))
        published = snapshots.found(log, traffic.model, version)
        if content is not None and published is not None:
            left.discard(version)
            yield version, snapshots.ranker_of(content, f"version {version}", traffic.spec_of(log, published))[0]
    if not left:
        return
    state = checkpoint.origin(log, traffic.model, recall_from(log))
    if state.ranker is not None and state.version in left and not state.unpublished:
        left.discard(state.version)
        yield state.version, _as_served(state, traffic)
    for record in log.read(after=state.at, model=traffic.model):
        state.take(record)
        if isinstance(record.entry, Snapshot) and record.entry.version in left and state.ranker is not None:
            left.discard(record.entry.version)
            yield record.entry.version, _as_served(state, traffic)
            if not left:
                return


def _as_served(state: State, traffic: Traffic) -> Ranker:
    """Return a replayed ranker behind the features of now, unless it is of an earlier generation."""
    assert state.ranker is not None
    return traffic.spec.adapt(state.ranker) if state.generation == traffic.generation else state.ranker


def _chances(ranker: Ranker, shown: JudgedList, other: list[int], marginals: bool) -> Chances:
    places, limits = shown.spec.places, shown.spec.exploration
    query, k = query_of(shown.candidates, places), len(shown.log_p)
    bounds = _bounds(limits)
    order = jnp.asarray(_padded(other, places, len(shown.candidates.ids)))
    explores = np.exp(np.cumsum(np.asarray(_log_p(ranker, query, order, bounds), np.float64)[:k]))
    best = best_order(ranker, query)[:k]
    agrees = np.cumprod([a == b for a, b in zip(other[:k], best, strict=True)])
    reach = np.minimum(limits.share * explores + (1 - limits.share) * agrees, 1)
    if not marginals:
        return Chances(reach)
    drawn = np.asarray(_drawn(ranker, query, _key(shown.name), bounds, places))[:, :k]
    others = _marginal(drawn, other[:k], best, limits.share, is_shown=False)
    own = _marginal(drawn, shown.candidates.shown, best, limits.share, is_shown=True)
    return Chances(reach, others, own)


def _marginal(
    drawn: np.ndarray, rows: Sequence[int], best: Sequence[int], share: float, *, is_shown: bool
) -> np.ndarray:
    """Return how often documents stand at their places among drawn lists [m, k], and the shown one, if they are its."""
    n = (drawn == np.asarray(rows)).sum(axis=0) + is_shown
    return share * n / (len(drawn) + is_shown) + (1 - share) * (np.asarray(rows) == np.asarray(best))


def _bounds(limits: Exploration) -> tuple[Array, Array]:
    return jnp.asarray(limits.protected, jnp.int32), jnp.asarray(limits.most_displacement, jnp.int32)


def _padded(order: list[int], places: int, n: int) -> np.ndarray:
    """Return the first places of an order; where there are fewer documents, rows of padding follow."""
    return np.array([*order, *range(n, n + places)][:places], np.int32)


def _key(name: bytes) -> Array:
    """Return a random key that follows from the impression, so that the same log gives the same numbers."""
    seed = hashlib.blake2b(name, digest_size=4, person=b"marginals").digest()
    return jax.random.key(int.from_bytes(seed, "big"))


@eqx.filter_jit
def _log_p(ranker: Ranker, query: Query, order: Array, bounds: tuple[Array, Array]) -> Array:
    """Return the log-probability of each place of this list [k] when it explores."""
    limits = Limits.of(ranker.score(query), query.mask, *bounds, jnp.asarray(True), order)
    ranking = ranker.rank(_limited(query, limits), jax.random.key(0), order.shape[0])
    assert ranking.log_p is not None
    return ranking.log_p


@eqx.filter_jit
def _drawn(ranker: Ranker, query: Query, key: Array, bounds: tuple[Array, Array], places: int) -> Array:
    """Return many lists that explore; [m, k]."""
    limits = Limits.of(ranker.score(query), query.mask, *bounds, jnp.asarray(True))
    limited = _limited(query, limits)
    return jax.vmap(lambda each: ranker.rank(limited, each, places).order)(jax.random.split(key, DRAWS))


def _limited(query: Query, limits: Limits) -> Query:
    return Query(query.features, query.mask, query.ids, query.prior, limits)
