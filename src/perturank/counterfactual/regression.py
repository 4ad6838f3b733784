"""A regression of rewards on the features of a document, place by place: no list is in the fit that predicts it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

FOLDS = 5
RIDGE = 10.0  # on standardised features: as many lists without any information


@dataclass(frozen=True)
class Predictions:
    """What the regression expects, [n, k] each; B's document of a place stands below the logged ones."""

    shown: np.ndarray  # earned from this place on, with the logged document there
    target: np.ndarray  # earned from this place on, with B's document there
    direct: np.ndarray  # earned at this place by B's document


def cross_fitted(rewards: ArrayLike, shown: np.ndarray, target: np.ndarray, is_place: np.ndarray) -> Predictions:
    """Return predictions for lists with these rewards [n, k] from features of shown and of B's documents [n, k, d].

    Places of `is_place` [n, k] exist. Lists are dealt out to folds in turn.
    """
    earned = np.where(is_place, np.asarray(rewards, np.float64), 0)
    future = np.cumsum(earned[:, ::-1], axis=1)[:, ::-1]
    n, k = earned.shape
    fold = np.arange(n) % FOLDS
    found = np.zeros((3, n, k))
    for place in range(k):
        rows, others = _standardised(shown[:, place], target[:, place], is_place[:, place])
        wanted = np.stack([future[:, place], earned[:, place]], axis=1)
        for out in range(FOLDS):
            fitted = _ridge(rows[(fold != out) & is_place[:, place]], wanted[(fold != out) & is_place[:, place]])
            among = (fold == out) & is_place[:, place]
            found[0, among, place] = (rows[among] @ fitted)[:, 0]
            found[1:, among, place] = (others[among] @ fitted).T
    return Predictions(*found)


def _standardised(shown: np.ndarray, target: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both with the location and spread of the shown ones, missing features at their mean, and a column of 1."""
    rows = np.where(known[:, None], shown, np.nan).astype(np.float64)
    n_known = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
    location = np.nansum(rows, axis=0) / n_known
    spread = np.sqrt(np.nansum((rows - location) ** 2, axis=0) / n_known)
    spread = np.where(spread > 0, spread, 1)

    def column(values: np.ndarray) -> np.ndarray:
        scaled = np.nan_to_num((values - location) / spread, nan=0.0)
        return np.column_stack([scaled, np.ones(len(values))])

    return column(rows), column(target.astype(np.float64))


def _ridge(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the coefficients of a ridge regression whose last column, the constant, is free; [d, m]."""
    penalty = np.full(rows.shape[1], RIDGE)
    penalty[-1] = 1e-9
    return np.linalg.solve(rows.T @ rows + np.diag(penalty), rows.T @ wanted)
