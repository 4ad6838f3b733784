"""Certain orders of a whole query at once; `oracles.certainty` says the same pair by pair."""

from __future__ import annotations

import numpy as np

from ..objective import sigmoid


def unanimous(scores: np.ndarray) -> np.ndarray:
    """Return the orders on which all N rankers agree (def:certain); [N, V] -> [V, V]."""
    return np.all(scores[:, :, None] > scores[:, None, :], axis=0)


def outside_widths(scores: np.ndarray, kernel: np.ndarray, alpha: float) -> np.ndarray:
    """Return where σ(f_ij) − α‖x_ij‖ in A⁻¹ is above 1/2 (eq:cb); kernel is X A⁻¹ Xᵀ; [V], [V, V] -> [V, V]."""
    own = np.diag(kernel)
    widths = np.sqrt(np.maximum(own[:, None] + own[None, :] - 2 * kernel, 0))
    return np.asarray(sigmoid(scores[:, None] - scores[None, :]) - alpha * widths > 0.5)
