"""A linear layer whose weights move as noise on the clicks would move them (eq:linloss).

For scores z·v all noise on the preferences is one vector: Σ γ_p f_p = (Σ γ_p z_p)·v = u·v, with
u ~ N(0, ν²A), A = Λ + Σ w z zᵀ; the regulariser Λ counts as one more pair for every weight and is
perturbed like them. To first order the minimiser moves by H⁻¹u, H = Λ + Σ w σ'(f) z zᵀ being the
curvature of the cross-entropy at the fit. P²LinRank fits N layers to N pulls u; P²HeadRank fits one
layer and draws N/2 moves H⁻¹u, each of which it takes forwards and backwards.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl

from perturank.core import Array, Key


def factor(gram: Array, l2: Array | float) -> Array:
    """Return the Cholesky factor of Λ + gram; [D, D]. Λ is a number, or one for each weight [D]."""
    return jnp.linalg.cholesky(gram + l2 * jnp.eye(gram.shape[0]))


def pull(gram: Array, l2: Array | float, noise_std: Array | float, n: int, key: Key) -> Array:
    """Return u ~ N(0, ν²A) for n layers, gram being Σ w z zᵀ; [D, n]."""
    return noise_std * factor(gram, l2) @ jax.random.normal(key, (gram.shape[0], n))


def moves(gram: Array, bend: Array, l2: Array | float, noise_std: Array | float, n: int, key: Key) -> Array:
    """Return n draws of H⁻¹u ~ N(0, ν² H⁻¹AH⁻¹), bend being Σ w σ'(f) z zᵀ; [D, n]."""
    return jsl.cho_solve((factor(bend, l2), True), pull(gram, l2, noise_std, n, key))


def early(times: Array | float, half_way: Array | float, information: Array) -> Array:
    """Return the factor on ν after so much information (the total weight of pairs): it falls from `times` to 1.

    An order that is wrongly taken for certain hides the documents that would correct it, so while
    little is known more is asked for than the noise of the clicks.
    """
    return 1 + (times - 1) / (1 + information / half_way)
