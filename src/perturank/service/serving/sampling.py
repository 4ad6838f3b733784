"""Drawing a list in one compiled call: its order, probabilities and memo, and the order of the best estimate."""

from __future__ import annotations

import hashlib
import math
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from perturank import machine
from perturank.core import LISTS, Array, Limits, Query, Ranker, bucket, identities, streams
from perturank.service.log.records import log_probability
from perturank.service.log.spec import Spec
from perturank.wire.specification import Exploration

LOG_HALF = math.log(0.5)
MOST_PROGRAMS = 100  # each takes some 370 memory maps, of which Linux gives a process 65,530
MOST_SHORT = 256  # documents
Numbers = Any  # NumPy outside, JAX inside


@dataclass(frozen=True)
class SampledList:
    """Rows of the documents to show, best first; `best` is the list without exploration."""

    order: list[int]
    free: list[int]
    certain: list[bool]
    log_p: list[float] | None  # of each place, if the list explores
    log_propensity: float | None
    memo: list[np.ndarray]
    best: list[int]
    agreed: bytes | None  # see `agreement`
    places: bytes | None = None  # see `place_log_p`


class ListProgram(NamedTuple):
    """The compiled program that draws a model's lists, with the arrays of its ranker: flattened once, not per list."""

    arrays: list[Any]
    run: Callable[..., tuple[Array, Array | None, list[Array]]]
    spec: Spec
    is_limited: bool

    @classmethod
    def of(cls, ranker: Ranker, spec: Spec) -> ListProgram:
        """Return the program for this ranker of a model."""
        arrays, structure = jax.tree.flatten(ranker)
        return cls(arrays, _program(structure, tuple(map(np.shape, arrays)), spec.places), spec, spec.is_limited)


@lru_cache(maxsize=MOST_PROGRAMS)
def _program(structure: Any, shapes: tuple[Any, ...], k: int) -> Callable[..., tuple[Array, Array | None, list[Array]]]:
    """Return the compiled program that draws a list, for one pytree structure and its shapes."""

    def program(
        arrays: list[Any],
        features: Numbers,
        mask: Numbers,
        ids: Numbers,
        prior: Numbers,
        key: Numbers,
        bounds: Numbers | None,
    ) -> tuple[Array, Array | None, list[Array]]:
        """Return order, free set's sizes and the best estimate's order [3, k], the log-probabilities and the memo.

        Bounds are (protected, displacement, explores).
        """
        ranker: Ranker = jax.tree.unflatten(structure, arrays)
        query = Query(features, mask, ids, prior)
        scores = ranker.score(query)
        best = jnp.argsort(jnp.where(mask, -scores, jnp.inf), stable=True)[:k]
        if bounds is not None:
            limits = Limits.of(scores, mask, bounds[0], bounds[1], bounds[2] > 0)
            query = Query(features, mask, ids, prior, limits)
        ranking = ranker.rank(query, jax.random.wrap_key_data(key), k)
        rows = jnp.stack([ranking.order, ranking.free, best]).astype(jnp.int32)
        return rows, ranking.log_p, jax.tree.leaves(ranking.memo)

    # Compiled lightly in half the time, short lists are drawn as fast, and those of 1,000 documents half as fast.
    short, long = jax.jit(program, compiler_options=machine.light_options()), jax.jit(program)
    return lambda arrays, features, *rest: (short if len(features) <= MOST_SHORT else long)(arrays, features, *rest)


def sample_list(
    program: ListProgram,
    features: np.ndarray,
    prior: np.ndarray | None,
    top: int,
    *,
    draw: int | None = None,
    n_above: int = 0,
) -> SampledList:
    """Return a list of at most `top` of these documents [n, d]; the random key is the machine's, or that of a draw.

    `n_above` documents stand above them, on earlier pages: some places that are protected may be there.
    """
    n, spec = len(features), program.spec
    v = padded_length(n, spec.places)
    mask, scores = _padding(v, n)
    rows = np.empty((v, features.shape[1]), np.float32)
    rows[:n], rows[n:] = features, 0
    if prior is not None:
        scores = scores.copy()
        scores[:n] = prior
    ids = np.zeros((v, 2), np.uint32)
    ids[:n] = identities(rows[:n], scores[:n])  # as the learner names them
    key = np.frombuffer(os.urandom(8), np.uint32) if draw is None else seeded_key(spec.seed, draw)
    limits = spec.exploration
    explores = _explores(limits, None if draw is None else key)
    bounds = _bounds(limits, explores, n_above) if program.is_limited else None
    found, log_p, memo = program.run(program.arrays, rows, mask, ids, scores, key, bounds)
    order, free, best = np.asarray(found)[:, : min(top, n)].tolist()
    free = free if limits.share > 0 else [1] * len(free)  # if no list explores, each place has one candidate
    log_ps = None if log_p is None else np.asarray(log_p)[: len(order)].tolist()
    return SampledList(
        order,
        free,
        _certain(free, log_ps if limits.share > 0 else None),
        log_ps,
        None if log_ps is None else _log_propensity(log_ps, free, limits.share, order == best),
        [np.asarray(leaf) for leaf in memo],
        best,
        None if log_ps is None else agreement(log_ps, order, best, best, limits.share),
        None if log_ps is None else place_log_p(log_ps, order, best, limits.share),
    )


@lru_cache(maxsize=1024)
def _padding(v: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which of v rows are documents, and scores of 0; both are shared and must not be written to."""
    return np.arange(v) < n, np.zeros(v, np.float32)


def padded_length(n: int, places: int) -> int:
    """Return how many rows n documents are padded to."""
    return bucket(max(n, places))


def seeded_key(seed: int, draw: int) -> np.ndarray:
    """Return the random key that a simulation with this seed uses in the round of this number; [2]."""
    return np.asarray(_seeded(np.int32(seed), np.int32(draw)))


@jax.jit
def _seeded(seed: Array, draw: Array) -> Array:
    return jax.random.key_data(jax.random.fold_in(streams(seed)[LISTS], draw))


def _explores(limits: Exploration, key: np.ndarray | None) -> bool:
    """Return whether this list explores at all: a random number decides, derived from the key of a seeded draw."""
    number = os.urandom(7) if key is None else hashlib.blake2b(key.tobytes(), digest_size=7).digest()
    return limits.share == 1 or int.from_bytes(number, "big") < limits.share * 2**56


def _bounds(limits: Exploration, explores: bool, n_above: int) -> np.ndarray:
    return np.array([max(limits.protected - n_above, 0), limits.most_displacement, explores], np.int32)


def _certain(free: list[int], log_ps: list[float] | None) -> list[bool]:
    """Return for each place whether its document was the only candidate.

    A floor of exploration may show another document at a place with one free document. Its probability is at most
    half.
    """
    return [n == 1 and (log_ps is None or log_ps[place] > LOG_HALF) for place, n in enumerate(free)]


def _log_propensity(log_ps: list[float], free: list[int], share: float, is_best: bool) -> float:
    """Return log(s·p + (1 - s)·[it is the best estimate]), p being the list's probability when it explores."""
    log_p = log_probability(log_ps, free)
    if share == 1:
        return min(log_p, 0.0)
    if share == 0:
        return 0.0
    p = share * math.exp(log_p) + (1 - share) * is_best
    return math.log(p) if p > 0 else math.log(share) + log_p


def agreement(
    log_p: Sequence[float], order: Sequence[int], other: Sequence[int], best: Sequence[int], share: float
) -> bytes:
    """Return log q_j, float32, for each place j up to which the order agrees with another one.

    log_p [k] are the places' own log-probabilities when the list explores, which a share of the lists do. All others
    are the best estimate, and agree with the other order as far as that does.
    """
    found, together, is_best = [], 0.0, True
    for place, document in enumerate(order):
        if document != other[place]:
            break
        together += log_p[place]
        is_best = is_best and document == best[place]
        if share == 1:
            log_q = together
        elif is_best:
            log_q = math.log(share * math.exp(together) + (1 - share))
        elif share > 0:
            log_q = together + math.log(share)
        else:
            break
        found.append(min(0.0, log_q))
    return struct.pack(f"<{len(found)}f", *found)


def place_log_p(log_p: Sequence[float], order: Sequence[int], best: Sequence[int], share: float) -> bytes:
    """Return the log-probability of each place given those above it, float32, over lists that explore and that do not.

    Above it stands what both kinds of lists may show, or, once it differs from the best estimate, only those that
    explore. If no list explores, nothing is returned: every place is certain.
    """
    if share == 0:
        return b""
    found = _log_prefixes(log_p, order, best, share)
    places = [min(0.0, after - above) for above, after in zip([0.0, *found], found, strict=False)]
    return struct.pack(f"<{len(places)}f", *places)


def _log_prefixes(log_p: Sequence[float], order: Sequence[int], best: Sequence[int], share: float) -> list[float]:
    """Return the log-probability that a list begins with the first r documents of this order, for each r."""
    found, together, agrees = [], 0.0, True
    for place, document in enumerate(order):
        together += log_p[place]
        agrees = agrees and document == best[place]
        if share == 1:
            found.append(min(0.0, together))
        elif agrees:
            found.append(min(0.0, math.log(share * math.exp(together) + (1 - share))))
        else:
            found.append((math.log(share) if share else -math.inf) + together)
    return found
