"""The perturbed pairwise objective (eq:loss, eq:obj, eq:linloss), term by term, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

Vector = np.ndarray


def sigmoid(z: ArrayLike) -> Vector:
    return np.exp(-np.logaddexp(0, -np.asarray(z, np.float64)))


def cross_entropies(f_ij: ArrayLike, y: ArrayLike, noise: ArrayLike = 0.0, weight: ArrayLike = 1.0) -> float:
    """Return Σ w·(−(1 − (y + γ)) log(1 − σ(f_ij)) − (y + γ) log σ(f_ij)) over pairs (eq:obj; without γ eq:loss)."""
    f, target = np.asarray(f_ij, np.float64), np.asarray(y) + np.asarray(noise)
    log_p, log_not_p = -np.logaddexp(0, -f), -np.logaddexp(0, f)
    return float(np.sum(np.asarray(weight) * (-(1 - target) * log_not_p - target * log_p)))


def bounded(f_ij: ArrayLike, y: ArrayLike, noise: ArrayLike = 0.0, weight: ArrayLike = 1.0) -> float:
    """Return Σ w · 2(1 − 2(y + γ)) σ(f_ij): symmetric and bounded, not the paper's."""
    return float(np.sum(np.asarray(weight) * 2 * (1 - 2 * (np.asarray(y) + np.asarray(noise))) * sigmoid(f_ij)))


def mixed(f_ij: ArrayLike, y: ArrayLike, noise: ArrayLike = 0.0, weight: ArrayLike = 1.0) -> float:
    """Return a fifth of the cross-entropy and four fifths of the bounded loss."""
    return 0.2 * cross_entropies(f_ij, y, noise, weight) + 0.8 * bounded(f_ij, y, noise, weight)


def linear_regulariser(theta: Vector, lam: float, noise: ArrayLike = 0.0) -> float:
    """Return λ/2 ‖θ − γ/√λ‖²: its gradient is λθ − √λ γ, one pseudo-pair √λ e_l per feature (eq:linloss).

    Up to a constant in θ this is λ/2 ‖θ‖² − √λ γ·θ.
    """
    return float(lam / 2 * np.sum((theta - np.asarray(noise) / np.sqrt(lam)) ** 2))


def network_regulariser(theta: Vector, theta0: Vector, lam: float, m: int, noise: ArrayLike = 0.0) -> float:
    """Return mλ/2 ‖θ − θ₀ + γ/√(mλ)‖²; without noise eq:obj, with noise eq:hatloss, its scale put right."""
    return float(m * lam / 2 * np.sum((theta - theta0 + np.asarray(noise) / np.sqrt(m * lam)) ** 2))


def linear_objective(
    theta: Vector,
    x_ij: Vector,
    y: ArrayLike,
    lam: float,
    noise: ArrayLike = 0.0,
    weight: ArrayLike = 1.0,
    regulariser_noise: ArrayLike = 0.0,
) -> float:
    """Return the objective of a linear ranker (eq:linloss); pairs x_ij [n, d]."""
    return cross_entropies(x_ij @ theta, y, noise, weight) + linear_regulariser(theta, lam, regulariser_noise)


def linear_gradient(
    theta: Vector,
    x_ij: Vector,
    y: ArrayLike,
    lam: float,
    noise: ArrayLike = 0.0,
    weight: ArrayLike = 1.0,
    regulariser_noise: ArrayLike = 0.0,
) -> Vector:
    """Return Σ w (σ(x·θ) − (y + γ)) x + λθ − √λ Σ γ_l e_l (eqn:gradient)."""
    residual = np.asarray(weight) * (sigmoid(x_ij @ theta) - np.asarray(y) - np.asarray(noise))
    return np.asarray(x_ij.T @ residual + lam * theta - np.sqrt(lam) * np.asarray(regulariser_noise))


def linear_hessian(theta: Vector, x_ij: Vector, lam: float, weight: ArrayLike = 1.0) -> Vector:
    """Return Σ w σ(1 − σ) x xᵀ + λI; the noise is linear in θ and leaves no trace."""
    p = sigmoid(x_ij @ theta)
    curvature = np.broadcast_to(np.asarray(weight) * p * (1 - p), len(x_ij))
    return np.asarray((x_ij.T * curvature) @ x_ij + lam * np.eye(len(theta)))


def linear_fit(
    x_ij: Vector,
    y: ArrayLike,
    lam: float,
    noise: ArrayLike = 0.0,
    weight: ArrayLike = 1.0,
    regulariser_noise: ArrayLike = 0.0,
) -> Vector:
    """Return the one minimiser of the linear objective: L-BFGS, then Newton steps until they vanish."""
    given = (x_ij, y, lam, noise, weight, regulariser_noise)
    theta = minimize(linear_objective, np.zeros(x_ij.shape[1]), given, "L-BFGS-B", linear_gradient).x
    for _ in range(20):
        theta = theta - np.linalg.solve(linear_hessian(theta, x_ij, lam, weight), linear_gradient(theta, *given))
    return np.asarray(theta)


def central_differences(function: Callable[[Vector], float], theta: Vector, step: float = 1e-5) -> Vector:
    """Return the gradient of any objective, one coordinate at a time."""
    gradient = np.zeros(len(theta))
    for i in range(len(theta)):
        up, down = theta.copy(), theta.copy()
        up[i] += step
        down[i] -= step
        gradient[i] = (function(up) - function(down)) / (2 * step)
    return gradient
