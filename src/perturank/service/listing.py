"""A list as one compiled call per padded length: order, probabilities, memo, and the best estimate beside it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from perturank.core import Array, Key, Limits, Query, Ranker, Ranking, bucket
from perturank.service.propensity import log_probability
from perturank.service.spec import Exploration, Spec

ANYWHERE = 1_000_000
Numbers = Any  # NumPy outside, JAX inside


@dataclass(frozen=True)
class Listed:
    """Rows of the documents to show, best first; `best` is the list without exploration."""

    order: list[int]
    free: list[int]
    log_propensity: float | None
    memo: list[np.ndarray]
    best: list[int]


@eqx.filter_jit
def _compiled(
    ranker: Ranker, features: Numbers, mask: Numbers, prior: Numbers, lots: Numbers, bounds: Numbers | None, k: int
) -> tuple[Ranking, Array]:
    """Return the list and the best estimate's order [k]; bounds are (protected, displacement, explores)."""
    ids = jnp.zeros((mask.shape[0], 2), jnp.uint32)  # ranking needs none
    query = Query(features, mask, ids, prior)
    scores = ranker.score(query)
    best = jnp.argsort(jnp.where(mask, -scores, jnp.inf), stable=True)[:k]
    if bounds is not None:
        limits = Limits.of(scores, mask, bounds[0], bounds[1], bounds[2] > 0)
        query = Query(features, mask, ids, prior, limits)
    key: Key = jax.random.wrap_key_data(lots)
    return ranker.rank(query, key, k), best


def listed(
    ranker: Ranker,
    spec: Spec,
    features: np.ndarray,
    prior: np.ndarray | None,
    top: int,
    *,
    lots: np.ndarray | None = None,
    explores: bool | None = None,
) -> Listed:
    """Return a list of at most `top` of these documents [n, d]; chance comes from the machine unless given."""
    n = len(features)
    v, k = padded_length(n, spec.places), spec.places
    rows = np.zeros((v, features.shape[1]), np.float32)
    rows[:n] = features
    scores = np.zeros(v, np.float32)
    scores[:n] = 0 if prior is None else prior
    lots = np.frombuffer(os.urandom(8), np.uint32) if lots is None else lots
    limits = spec.exploration
    explores = _explores(limits) if explores is None else explores
    bounds = _bounds(limits, explores) if spec.is_limited else None
    ranking, best = _compiled(ranker, rows, np.arange(v) < n, scores, lots, bounds, k)
    shown = min(top, n)
    order, found = np.asarray(ranking.order)[:shown].tolist(), np.asarray(best)[:shown].tolist()
    return Listed(
        order,
        np.asarray(ranking.free)[:shown].tolist(),
        _log_propensity(ranking, shown, limits.share, order == found),
        [np.asarray(leaf) for leaf in jax.tree.leaves(ranking.memo)],
        found,
    )


def padded_length(n: int, places: int) -> int:
    """Return how many rows n documents are padded to."""
    return bucket(max(n, places))


def _explores(limits: Exploration) -> bool:
    return limits.share == 1 or int.from_bytes(os.urandom(7), "big") < limits.share * 2**56


def _bounds(limits: Exploration, explores: bool) -> np.ndarray:
    displacement = ANYWHERE if limits.displacement is None else limits.displacement
    return np.array([limits.protected, displacement, explores], np.int32)


def _log_propensity(ranking: Ranking, shown: int, share: float, is_best: bool) -> float | None:
    """Return log(s·p + (1 - s)·[it is the best estimate]), p being the list's probability when it explores."""
    if ranking.log_p is None:
        return None
    log_p = log_probability(np.asarray(ranking.log_p)[:shown], np.asarray(ranking.free)[:shown])
    if share == 1:
        return min(log_p, 0.0)
    p = share * math.exp(log_p) + (1 - share) * is_best
    return math.log(p) if p > 0 else math.log(share) + log_p


def has_propensity(ranker: Ranker, places: int) -> bool:
    """Return whether the ranker knows the probability of its lists, which limits need."""
    query = Query.of(np.zeros((places, ranker.n_features)))
    shape: Any = eqx.filter_eval_shape(lambda r, q, key: r.rank(q, key, places).log_p, ranker, query, jax.random.key(0))
    return shape is not None
