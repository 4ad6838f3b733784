"""How good a list is: NDCG, its discounted sum over rounds, and mis-ordered pairs.

The first half runs inside compiled loops (jnp), the second on the host over whole data sets (NumPy).
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from perturank.core import Array
from perturank.errors import BadInput

GAMMA = 0.9995

CONVENTIONS: dict[str, str | float] = {
    "gain": "2^grade - 1",
    "discount": "1 / log2(1 + rank), rank from 1",
    "ideal": "over all documents of the query, cut at k",
    "ties offline": "broken at random by a seed; a score that is not a number counts as the lowest",
    "queries without a relevant document, online": "0",
    "queries without a relevant document, offline": "dropped",
    "cumulative": "sum of NDCG * gamma^(t - 1) from t = 1",
    "gamma": GAMMA,
    "regret": "pairs of different grades in the wrong order; documents not shown follow by score, "
    "a tie among them counts half",
}

_ROWS = 16  # documents compared with all others in one unrolled step: the fastest of 4, 8, 16, 32
_LIMIT = np.float32(1e30)  # scores are compared within ±_LIMIT; places in the list lie above
_NOBODY = np.int32(2**30)  # a grade above all others, for padding: never below anything

Empty = Literal["drop", "zero", "one"]


def dcg(grades: Array, mask: Array) -> Array:
    """Return Σ (2^grade − 1) / log2(1 + rank) down a list; [k], [k] -> []."""
    gains = jnp.where(mask, _gains(grades), 0).astype(jnp.float32)
    return jnp.sum(gains * _discounts(grades.shape[0]).astype(np.float32))


def ndcg(shown_grades: Array, shown_mask: Array, ideal: Array) -> Array:
    """Return DCG over the ideal one, at most 1; 0 for a query without a relevant document."""
    share = dcg(shown_grades, shown_mask) / jnp.where(ideal > 0, ideal, 1)
    return jnp.where(ideal > 0, jnp.minimum(share, 1), 0)  # rounding may end just above 1


def misordered_shown(order: Array, shown_mask: Array, grades: Array, scores: Array, mask: Array) -> Array:
    """Return K(π, π*) of the list that shows order [k] and goes on by score with the rest of V documents.

    A tie in score between two documents that are not shown counts half: the mean over random orders.
    Comparing all pairs, a few rows at a time, is quicker than any sort up to V = 1024.
    """
    k, n = order.shape[0], grades.shape[0]
    place = np.float32(1e38) / np.arange(1, k + 1, dtype=np.float32)
    height = jnp.fmin(jnp.fmax(scores.astype(jnp.float32), -_LIMIT), _LIMIT)
    height = height.at[jnp.where(shown_mask, order, n)].set(place, mode="drop")
    pad = -n % _ROWS
    upper_height = jnp.pad(height, (0, pad)).reshape(-1, _ROWS)
    upper_grade = jnp.pad(jnp.where(mask, grades, _NOBODY), (0, pad), constant_values=_NOBODY).reshape(-1, _ROWS)
    lower_grade = jnp.where(mask, grades, -1)

    def add_rows(step: Array, twice: Array) -> Array:
        for row in range(_ROWS):
            h, g = upper_height[step, row], upper_grade[step, row]
            above = (h > height).astype(jnp.int32) + (h >= height).astype(jnp.int32)
            twice = twice + jnp.where(g < lower_grade, above, 0)
        return twice

    twice = jax.lax.fori_loop(0, upper_height.shape[0], add_rows, jnp.zeros(n, jnp.int32))
    return 0.5 * jnp.sum(twice).astype(jnp.float32)


def ideal_dcgs(labels: ArrayLike, offsets: ArrayLike, k: int) -> np.ndarray:
    """Return the ideal DCG@k of every query of a flat data set; labels [n], offsets [q + 1] -> [q]."""
    grades, starts, query = _flat(labels, offsets)
    return _dcgs(grades[np.lexsort((-grades, query))], starts, query, k)


def query_ndcgs(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, k: int = 10, seed: int = 0, empty: Empty = "drop"
) -> np.ndarray:
    """Return NDCG@k of every query when documents are sorted by score, ties at random; [q].

    Queries without a relevant document are nan ("drop"), 0 ("zero") or 1 ("one").
    """
    if empty not in ("drop", "zero", "one"):
        raise BadInput(f"empty is {empty!r}", "it must be 'drop', 'zero' or 'one'")
    grades, starts, query = _flat(labels, offsets)
    heights = np.asarray(scores)
    if heights.shape != grades.shape:
        raise BadInput(f"scores have shape {heights.shape} for {grades.size} labels", "give one score per document")
    ties = np.random.default_rng(seed).random(grades.size)
    order = np.lexsort((ties, -heights, query))
    ideal = ideal_dcgs(grades, starts, k)
    share = _dcgs(grades[order], starts, query, k) / np.where(ideal > 0, ideal, 1)
    return np.where(ideal > 0, share, {"drop": np.nan, "zero": 0.0, "one": 1.0}[empty])


def mean_ndcg(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, k: int = 10, seed: int = 0, empty: Empty = "drop"
) -> float:
    """Return the mean NDCG@k over queries; those without a relevant document are dropped by default.

    >>> mean_ndcg([0.3, 0.9, 0.1], [1, 0, 0], [0, 2, 3])  # 1 / log2(1 + 2)
    0.6309297535714575
    """
    values = query_ndcgs(scores, labels, offsets, k, seed, empty)
    counted = values[~np.isnan(values)]
    if counted.size == 0:
        raise BadInput("no query has a relevant document", "NDCG has no meaning on such data; check the labels")
    return float(counted.mean())


def random_ndcg(labels: ArrayLike, offsets: ArrayLike, k: int = 10) -> float:
    """Return the expected mean NDCG@k of uniformly random orders; queries without a relevant document are dropped.

    Every document is as likely at every place: the expected DCG@k of a query is its mean gain times the sum of
    the discounts of its first k places.

    >>> round(random_ndcg([1, 0], [0, 2]), 6)  # first or second: (1 + 1 / log2(1 + 2)) / 2
    0.815465
    """
    grades, starts, query = _flat(labels, offsets)
    lengths, ideal = np.diff(starts), ideal_dcgs(grades, starts, k)
    relevant = ideal > 0
    if not relevant.any():
        raise BadInput("no query has a relevant document", "NDCG has no meaning on such data; check the labels")
    gains = np.bincount(query, 2.0**grades - 1, minlength=lengths.size)
    discounts = np.concatenate([[0.0], np.cumsum(_discounts(k))])[np.minimum(lengths, k)]
    return float(np.mean((gains * discounts)[relevant] / (lengths * ideal)[relevant]))


def cumulative_ndcg(values: ArrayLike, gamma: float = GAMMA, start: int = 0, carry: float = 0.0) -> np.ndarray:
    """Return the running sums of NDCG · γ^(t − 1), the first of these rounds being t = start + 1; [T] -> [T].

    Terms are added one after the other: chunks joined by `start` and `carry` (the last sum so far)
    give the same bits as the whole.
    """
    rounds = np.asarray(values, np.float64)
    terms = rounds * np.array([gamma**t for t in range(start, start + rounds.size)])
    return np.add.accumulate(np.concatenate([[carry], terms]))[1:]


def _gains(grades: Array) -> Array:
    return jnp.left_shift(1, grades.astype(jnp.int32)) - 1


def _discounts(k: int) -> np.ndarray:
    return 1 / np.log2(np.arange(2, k + 2))


def _flat(labels: ArrayLike, offsets: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels [n], offsets [q + 1] and the query number of every document [n]."""
    grades, starts = np.asarray(labels).astype(np.int64), np.asarray(offsets)
    query = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    if query.size != grades.size:
        raise BadInput(f"offsets end at {query.size} but there are {grades.size} labels", "they must agree")
    return grades, starts, query


def _dcgs(grades: np.ndarray, starts: np.ndarray, query: np.ndarray, k: int) -> np.ndarray:
    """Return DCG@k of every query whose documents are in list order; [q]."""
    rank = np.arange(grades.size) - starts[query]
    top = rank < k
    terms = (2.0 ** grades[top] - 1) * _discounts(k)[rank[top]]
    return np.bincount(query[top], terms, minlength=starts.size - 1)
