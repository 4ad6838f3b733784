"""Looking at a ranker from outside: NDCG on held-out queries, how much it is unsure of, and where it errs surely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from perturank import metrics
from perturank.core import Array, CertainOrders, LinearWidths, Query, Ranker, RowWise, bucket
from perturank.datasets import Dataset
from perturank.orders import NO_DOCUMENT, Orders

ROWS_AT_ONCE = 8192
N_UNCERTAIN_QUERIES = 64
N_ORDER_QUERIES = 32
LONGEST_ORDERED = 32  # documents: longer lists are cut to as many, evenly spaced


@dataclass(frozen=True)
class Exam:
    """Held-out queries to be scored; the seed breaks ties of scores.

    A row-wise ranker scores rows in equal slices, so that one shape is compiled; any other scores query by query.
    """

    data: Dataset
    seed: int

    @classmethod
    def of(cls, data: Dataset, seed: int) -> Exam:
        """Return the exam on this data set."""
        return cls(data, seed)

    def ndcg(self, ranker: Ranker, k: int) -> float:
        """Return the mean NDCG@k of the ranker's best estimate."""
        labels, offsets = np.asarray(self.data.labels), np.asarray(self.data.offsets)
        return float(metrics.mean_ndcg(self.scores(ranker), labels, offsets, k=k, seed=self.seed))

    def scores(self, ranker: Ranker) -> np.ndarray:
        """Return the ranker's best estimate of every document's score; [n]."""
        n = self.data.n_documents
        if isinstance(ranker, RowWise) and ranker.is_row_wise:
            return np.concatenate([np.asarray(ranker.score(rows)) for rows in self._slices])[:n]
        found = np.zeros(n, np.float32)
        for queries, rows in self._queries:
            found[rows] = np.asarray(_query_scores(ranker, queries))[np.asarray(queries.mask)]
        return found

    def random_ndcg(self, k: int) -> float:
        """Return the expected NDCG@k of a random order: a ranker below it has collapsed."""
        return metrics.random_ndcg(np.asarray(self.data.labels), np.asarray(self.data.offsets), k=k)

    @cached_property
    def _slices(self) -> list[Query]:
        """All rows, whatever their queries."""
        n = self.data.n_documents
        size = min(ROWS_AT_ONCE, bucket(n))
        starts = range(0, n, size)
        return [plain_query(np.asarray(self.data.features[i : i + size], np.float32), size) for i in starts]

    @cached_property
    def _queries(self) -> list[tuple[Query, np.ndarray]]:
        """Queries of one padded length, stacked [q, V, …], and the rows of their documents, for each length."""
        sizes = np.array([bucket(int(n)) for n in self.data.lengths])
        rows_of = np.repeat(sizes, np.asarray(self.data.lengths))
        return [
            (_stacked(self.data, sizes == size, int(size)), np.flatnonzero(rows_of == size))
            for size in np.unique(sizes)
        ]


def _stacked(data: Dataset, chosen: np.ndarray, size: int) -> Query:
    """Return the chosen queries [Q], padded to this size, as one; every array has an axis more."""
    mask = np.arange(size) < np.asarray(data.lengths)[chosen][:, None]
    features = np.zeros((*mask.shape, data.n_features), np.float32)
    features[mask] = np.asarray(data.features, np.float32)[np.repeat(chosen, np.asarray(data.lengths))]
    blank = np.zeros((*mask.shape, 2), np.uint32), np.zeros(mask.shape, np.float32)
    return Query(*(jax.device_put(array) for array in (features, mask, *blank)))


@eqx.filter_jit
def _query_scores(ranker: Ranker, queries: Query) -> Array:
    return jax.lax.map(ranker.score, queries)


def plain_query(rows: np.ndarray, size: int) -> Query:
    """Return these rows [n, d] as a query of this size, without identities or a prior: it is only looked at."""
    n = len(rows)
    blank = np.zeros((size, 2), np.uint32), np.zeros(size, np.float32)
    padded = np.pad(rows, ((0, size - n), (0, 0))), np.arange(size) < n, *blank
    return Query(*(jax.device_put(array) for array in padded))


@dataclass(frozen=True)
class Doubts:
    """A few training queries on which the share of uncertain pairs is measured."""

    queries: tuple[Query, ...]

    @classmethod
    def of(cls, data: Dataset) -> Doubts:
        """Return evenly spaced queries of the data set, padded alike."""
        chosen = _evenly_spaced(data.n_queries, N_UNCERTAIN_QUERIES)
        size = bucket(int(np.max(data.lengths[chosen])))
        return cls(tuple(plain_query(np.asarray(data.query(int(i))[0], np.float32), size) for i in chosen))

    def share(self, ranker: Ranker) -> float | None:
        """Return the mean share of uncertain pairs; None where the ranker defines none."""
        if not isinstance(ranker, CertainOrders):
            return None
        return float(np.mean([float(ranker.uncertain(query)) for query in self.queries]))

    def width(self, ranker: Ranker) -> float | None:
        """Return the mean of ‖x_i - x_j‖² in A⁻¹ over all pairs; None where the ranker keeps no A."""
        covariance = ranker.feature_covariance if isinstance(ranker, LinearWidths) else None
        if covariance is None:
            return None
        inverse = np.linalg.inv(np.asarray(covariance, np.float64))
        return float(np.mean([mean_width(np.asarray(q.features)[np.asarray(q.mask)], inverse) for q in self.queries]))


@dataclass(frozen=True)
class OrderExam:
    """A few held-out queries of one shape, stacked, and their grades [q, V], on which orders are compared.

    A ranker that looks at whole lists sees long ones cut.
    """

    queries: Query
    grades: np.ndarray

    @classmethod
    def of(cls, data: Dataset) -> OrderExam:
        """Return evenly spaced queries of the data set; every run on it is asked about the same pairs."""
        size = bucket(min(LONGEST_ORDERED, int(np.max(data.lengths))))
        queries, grades = [], []
        for i in _evenly_spaced(data.n_queries, N_ORDER_QUERIES):
            features, labels = data.query(int(i))
            rows = _evenly_spaced(len(labels), size)
            queries.append(plain_query(np.asarray(features[rows], np.float32), size))
            grades.append(np.pad(np.asarray(labels)[rows], (0, size - len(rows)), constant_values=NO_DOCUMENT))
        return cls(jax.tree.map(lambda *each: jnp.stack(each), *queries), np.stack(grades))

    def orders(self, ranker: Ranker) -> Orders:
        """Return the ranker's scores and its certain orders."""
        scores, certain = _scores_and_certain(ranker, self.queries)
        return Orders.of(self.grades, np.asarray(scores), None if certain is None else np.asarray(certain))


@eqx.filter_jit
def _scores_and_certain(ranker: Ranker, queries: Query) -> tuple[Array, Array | None]:
    def one(query: Query) -> tuple[Array, Array | None]:
        return ranker.score(query), ranker.certain(query) if isinstance(ranker, CertainOrders) else None

    return jax.lax.map(one, queries)


def _evenly_spaced(n: int, most: int) -> np.ndarray:
    """Return at most so many of the numbers below n."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def mean_width(rows: np.ndarray, inverse: np.ndarray) -> float:
    """Return the mean of ‖x_i - x_j‖² in A⁻¹ over the pairs i < j of these rows [V, d]; 0 for a single row."""
    n = len(rows)
    if n < 2:
        return 0.0
    # Σ over pairs of (x_i - x_j)ᵀA⁻¹(x_i - x_j) = n Σ x_iᵀA⁻¹x_i - (Σ x_i)ᵀA⁻¹(Σ x_i), for centred rows n Σ alone.
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    return float(2 * np.sum((centred @ inverse) * centred) / (n - 1))
