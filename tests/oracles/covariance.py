"""The constants of the theory, in logarithms where they would overflow."""

from __future__ import annotations

import numpy as np

from .certainty import covariance


def log_det_ratio(x_ij: np.ndarray, lam: float) -> float:
    """Return log(det A / det λI) with A of lemma:cb; [n, d]."""
    sign, log_det = np.linalg.slogdet(covariance(x_ij, lam))
    assert sign == 1
    return float(log_det - x_ij.shape[1] * np.log(lam))


def alpha(x_ij: np.ndarray, lam: float, delta: float, r: float, c_mu: float, k_mu: float = 0.25) -> float:
    """Return α_t = (2k_μ/c_μ)(√(R² log(det A / (δ² det λI))) + d) (lemma:cb)."""
    inside = r**2 * (log_det_ratio(x_ij, lam) - 2 * np.log(delta))
    return float(2 * k_mu / c_mu * (np.sqrt(inside) + x_ij.shape[1]))


def log_smallest_ensemble(beta: float, delta: float) -> float:
    """Return log of log δ / log(1 − exp(−β²) / (4√π β)), the smallest N of lemma:uncertain."""
    log_q = -(beta**2) - np.log(4 * np.sqrt(np.pi) * beta)
    log_rate = np.log(-np.log1p(-np.exp(log_q))) if log_q > -30 else log_q  # −log(1 − q) is q when q is tiny
    return float(np.log(-np.log(delta)) - log_rate)
