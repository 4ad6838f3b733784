"""The pairwise loss of one pair: its slope and curvature in f_ij, for total weight w and target t = Σw·(y + γ)."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from perturank.core import Array

Loss = Literal["cross-entropy", "symmetric", "mixed"]

# Of cross-entropy in the mixed loss. The symmetric loss alone takes no notice of pairs that contradict it strongly:
# a ranking that has become wrong and sure of itself could never be put right.
SHARP = 0.2


def loss(f: Array, weight: Array, target: Array, kind: Loss) -> Array:
    """Return the loss of pairs with score difference f: eq:obj, the bounded symmetric one, or a mean of the two."""
    if kind == "mixed":
        sharp, bounded = loss(f, weight, target, "cross-entropy"), loss(f, weight, target, "symmetric")
        return SHARP * sharp + (1 - SHARP) * bounded
    if kind == "cross-entropy":
        return weight * jax.nn.softplus(f) - target * f
    return 2 * (weight - 2 * target) * jax.nn.sigmoid(f)


def slope(f: Array, weight: Array, target: Array, kind: Loss) -> Array:
    """Return ∂loss/∂f (eqn:gradient). All losses have slope w/2 - t at f = 0."""
    if kind == "mixed":
        sharp, bounded = slope(f, weight, target, "cross-entropy"), slope(f, weight, target, "symmetric")
        return SHARP * sharp + (1 - SHARP) * bounded
    p = jax.nn.sigmoid(f)
    if kind == "cross-entropy":
        return weight * p - target
    return 2 * (weight - 2 * target) * p * (1 - p)


def curvature(f: Array, weight: Array, kind: Loss) -> Array:
    """Return ∂²loss/∂f² of cross-entropy; w/4, an upper bound, for the others, which are not convex."""
    if kind == "cross-entropy":
        p = jax.nn.sigmoid(f)
        return weight * p * (1 - p)
    return jnp.broadcast_to(weight / 4, f.shape)
