"""The pull on the weights of a linear layer: towards 0, or towards what a teacher taught, as far as clicks confirm it.

A teacher left the weights v₀. The layer v is pulled towards s·v₀ with the strength Λ, and the share s towards 1 with
the strength λ₀: min over s of ½(v - s v₀)ᵀΛ(v - s v₀) + ½λ₀(s - 1)². So the clicks of all documents decide together
whether the teacher is right. A wrong one is turned round by a single number, and then pulls no more than nothing does.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from perturank.core import Array


class Pull(NamedTuple):
    """Λ, one strength for each weight [D]; v₀ [D], if there was a teacher; λ₀."""

    strength: Array
    taught: Array | None = None
    l2_taught: Array | float = 1.0

    def gradient(self, v: Array) -> Array:
        """Return the pull on v, with the best s: Λ(v - s v₀); [D]."""
        if self.taught is None:
            return self.strength * v
        u = self.strength * self.taught
        share = (self.l2_taught + u @ v) / (self.l2_taught + u @ self.taught)
        return self.strength * (v - share * self.taught)

    def loosened(self, gram: Array) -> Array:
        """Return a Gram matrix to which Λ can be added as if there were no s: less Λv₀v₀ᵀΛ / (λ₀ + v₀ᵀΛv₀); [D, D]."""
        if self.taught is None:
            return gram
        u = self.strength * self.taught
        return gram - jnp.outer(u, u) / (self.l2_taught + u @ self.taught)
