"""Certain rank orders as matrices: certain[i, j] says that document i certainly precedes j."""

from __future__ import annotations

import numpy as np

from .objective import sigmoid


def unanimous(scores: np.ndarray) -> np.ndarray:
    """Return the orders on which all N rankers agree (def:certain, alg:model); [N, V] -> [V, V]."""
    n_documents = scores.shape[1]
    certain = np.zeros((n_documents, n_documents), bool)
    for i in range(n_documents):
        for j in range(n_documents):
            certain[i, j] = min(ranker[i] - ranker[j] for ranker in scores) > 0  # σ(f_ij) > 1/2
    return certain


def covariance(x_ij: np.ndarray, lam: float, diagonal: bool = False) -> np.ndarray:
    """Return A = Σ x xᵀ + λI (lemma:cb, with x = g/√m lemma_CI), or its diagonal part; [n, p] -> [p, p]."""
    a = lam * np.eye(x_ij.shape[1])
    for x in x_ij:
        a = a + np.outer(x, x)
    return np.diag(np.diag(a)) if diagonal else a


def widths(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return ‖x_i − x_j‖ in A⁻¹ for every pair of documents (eq:cb); [V, p], [p, p] -> [V, V]."""
    inverse = np.linalg.inv(a)
    return np.array([[np.sqrt((xi - xj) @ inverse @ (xi - xj)) for xj in x] for xi in x])


def confident(scores: np.ndarray, x: np.ndarray, a: np.ndarray, alpha: float) -> np.ndarray:
    """Return where σ(f_ij) − α‖x_ij‖ in A⁻¹ is above 1/2 (eq:cb); [V], [V, p] -> [V, V]."""
    return np.asarray(sigmoid(scores[:, None] - scores[None, :]) - alpha * widths(x, a) > 0.5)


def closure(certain: np.ndarray) -> np.ndarray:
    """Return the transitive closure (Floyd–Warshall)."""
    reach = certain.copy()
    for via in range(len(reach)):
        for i in range(len(reach)):
            for j in range(len(reach)):
                reach[i, j] |= reach[i, via] and reach[via, j]
    return reach


def uncertain_share(certain: np.ndarray) -> float:
    """Return the share of unordered pairs whose order is uncertain."""
    n = len(certain)
    uncertain = [not (certain[i, j] or certain[j, i]) for i in range(n) for j in range(i)]
    return float(np.mean(uncertain)) if uncertain else 0.0
