"""A ranker as an estimator of scikit-learn: `fit` from labels, `partial_fit` from clicks, `predict` scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from perturank import catalogue, storage
from perturank.core import Interaction, OffPolicy, Query, Ranker, Ranking, Rewards, bucket, identities
from perturank.errors import BadInput, unknown
from perturank.measures import Measure
from perturank.parts.standardised import Scale, standardised
from perturank.teaching import learn_labels, needs_memo

ROWS = 256  # scored at a time: rows of one shape have the same bits, whatever is scored with them
SCALINGS = ("auto", "none")


class ClickRanker(BaseEstimator):  # type: ignore[misc]
    """A ranker of the catalogue.

    `ranker` is its name and `settings` its hyper-parameters. With `scaling` "auto" it takes raw features, in which NaN
    is a missing value, and keeps the scale of the first documents that it sees; with "none" it takes them as they are.
    `metric` is what `score` measures, by its name in ir_measures. Documents of a query stand one after another: `group`
    are the sizes of the queries, `qid` the query of every document. Without either, all documents are one query.

    >>> X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 3
    >>> model = ClickRanker("pdgd-linear").fit(X, y, group=[10, 10])
    >>> model.predict(X).shape
    (20,)
    """

    def __init__(
        self,
        ranker: str = "p2headrank",
        *,
        settings: Mapping[str, Any] | None = None,
        scaling: str = "auto",
        metric: str = "nDCG@10",
        random_state: Any = 0,
    ) -> None:
        self.ranker = ranker
        self.settings = settings
        self.scaling = scaling
        self.metric = metric
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        group: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        eval_set: Any = None,
        eval_group: Any = None,
    ) -> Self:
        """Learn from relevance labels y [n], from nothing; all N rankers of an ensemble learn them.

        `eval_set` and `eval_group`, which other rankers take to stop early, change nothing.
        """
        rows, labels = self._read(X, y, reset=True)
        lengths = _lengths(len(rows), group, qid)
        self.ranker_ = learn_labels(self._start(rows), rows, labels, lengths, seed=self._seed())
        self.n_lists_ = 0
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, group: ArrayLike | None = None, *, qid: ArrayLike | None = None
    ) -> Self:
        """Learn from clicks y [n] on lists, each in the order in which its documents were shown.

        1 is a click and 0 none; other numbers are what a document turned out to be worth.
        """
        is_new = not hasattr(self, "ranker_")
        rows, worth = self._read(X, y, reset=is_new)
        if (worth < 0).any():
            raise BadInput("clicks are below 0", "give 1 for a click and 0 for none")
        lengths = _lengths(len(rows), group, qid)
        if is_new:
            self.ranker_, self.n_lists_ = self._start(rows), 0
        if needs_memo(self.ranker_) and not isinstance(self.ranker_, OffPolicy):
            raise BadInput(f"{self.ranker} learns only from lists that it drew itself", "use another ranker")
        for shown, clicks in _lists(rows, worth, lengths):
            key = jax.random.fold_in(jax.random.key(self._seed()), self.n_lists_)
            self.ranker_ = self.ranker_.learn(_interaction(self.ranker_, shown, clicks), key)
            self.n_lists_ += 1
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the score of every document, without exploration; [n]."""
        check_is_fitted(self)
        rows = self._rows(X)
        found = [self.ranker_.score(query) for query in _slices(rows)]
        return np.concatenate([np.asarray(scores) for scores in found])[: len(rows)].astype(np.float64)

    def rank(self, X: ArrayLike, k: int = 10, seed: int = 0) -> np.ndarray:
        """Return the rows of one query's documents to show, which explores where the ranker is unsure; at most [k]."""
        check_is_fitted(self)
        query = Query.of(self._rows(X), may_miss=self.scaling == "auto")
        ranking: Ranking = self.ranker_.rank(query, jax.random.key(seed), k)
        return ranking.documents

    def score(
        self, X: ArrayLike, y: ArrayLike, group: ArrayLike | None = None, *, qid: ArrayLike | None = None
    ) -> float:
        """Return the mean of the metric over the queries; y [n] are relevance labels."""
        check_is_fitted(self)
        rows, labels = self._read(X, y, reset=False)
        return Measure.named(self.metric).mean(self.predict(rows), labels, _lengths(len(rows), group, qid))

    def _start(self, rows: np.ndarray) -> Ranker:
        if self.scaling not in SCALINGS:
            raise unknown("scaling", str(self.scaling), SCALINGS)
        Measure.named(self.metric)
        is_scaled = self.scaling == "auto"
        made = catalogue.make(self.ranker, rows.shape[1] + is_scaled, seed=self._seed(), **dict(self.settings or {}))
        if not is_scaled:
            return made
        return standardised(made, Scale.of(np.column_stack([rows, np.zeros(len(rows))])))

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def _read(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return features and labels; whatever cannot be read is refused in scikit-learn's own words."""
        rows, labels = validate_data(
            self,
            X,
            y,
            dtype=np.float32,
            ensure_all_finite="allow-nan" if self.scaling == "auto" else True,
            y_numeric=True,
            reset=reset,
        )
        return rows, np.asarray(labels, np.float64)

    def _rows(self, X: ArrayLike) -> np.ndarray:
        finite = "allow-nan" if self.scaling == "auto" else True
        rows: np.ndarray = validate_data(self, X, dtype=np.float32, ensure_all_finite=finite, reset=False)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = self.scaling == "auto"
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "ranker_" in state:  # as its own file, without pickle
            state["ranker_"] = storage.packed(storage.arrays_of(self.ranker_), storage.header_of(self.ranker_))
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        restored = dict(state)
        if "ranker_" in restored:
            arrays, header = storage.unpacked(restored["ranker_"], "the estimator")
            restored["ranker_"] = storage.restored(arrays, header, "the estimator")
        super().__setstate__(restored)


def _lengths(n: int, group: ArrayLike | None, qid: ArrayLike | None) -> np.ndarray:
    """Return the sizes of the queries; what does not fit the documents is refused."""
    if group is not None and qid is not None:
        raise BadInput("group and qid are both given", "give one of them")
    if qid is not None:
        names = np.asarray(qid)
        if names.shape != (n,):
            raise BadInput(f"qid has shape {names.shape} for {n} documents", "give the query of every document")
        starts = np.concatenate([[0], np.flatnonzero(names[1:] != names[:-1]) + 1])
        if len(np.unique(names)) < len(starts):
            raise BadInput("documents of one query stand apart", "sort the rows by qid")
        return np.diff(np.append(starts, n))
    if group is None:
        return np.array([n])
    lengths = np.asarray(group)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 1).any() or lengths.sum() != n:
        raise BadInput(f"group adds up to {lengths.sum()} for {n} documents", "give the size of every query, in order")
    return lengths.astype(np.int64)


def _slices(rows: np.ndarray) -> list[Query]:
    """Return all rows as queries of one shape, whatever lists they come from."""
    padded = np.pad(rows, ((0, -len(rows) % ROWS), (0, 0)))
    blank = np.ones(ROWS, bool), np.zeros((ROWS, 2), np.uint32), np.zeros(ROWS, np.float32)
    return [Query(*jax.device_put((part, *blank))) for part in padded.reshape(-1, ROWS, rows.shape[1])]


def _lists(rows: np.ndarray, worth: np.ndarray, lengths: np.ndarray) -> list[tuple[Query, np.ndarray]]:
    """Return each list as it was shown, padded to a bucket, with what its documents were worth."""
    found = []
    for part, values in zip(*(np.split(each, np.cumsum(lengths)[:-1]) for each in (rows, worth)), strict=True):
        n, pad = len(part), bucket(len(part)) - len(part)
        prior = np.zeros(n + pad, np.float32)
        ids = np.pad(identities(part, prior[:n]), ((0, pad), (0, 0)))
        shown = Query(*jax.device_put((np.pad(part, ((0, pad), (0, 0))), np.arange(n + pad) < n, ids, prior)))
        found.append((shown, np.pad(values, (0, pad))))
    return found


def _interaction(ranker: Ranker, shown: Query, worth: np.ndarray) -> Interaction:
    is_plain = np.isin(worth, (0, 1)).all()
    memo = ranker.memo_of(shown) if isinstance(ranker, OffPolicy) else None
    return Interaction(shown, jnp.asarray(worth > 0), memo, None if is_plain else Rewards.of(worth))
