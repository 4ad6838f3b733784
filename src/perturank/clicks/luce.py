"""Luce's choice: a user whose preferences between any two documents follow the true scores (prop:pairwise)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from perturank.core import Array, ClickModel, Judgement, Key
from perturank.errors import BadInput


class Luce(eqx.Module):
    """A user who reads the whole list and clicks exactly one document, i with probability exp(f*_i) / Σ_j exp(f*_j).

    Of any two shown documents, i is clicked rather than j with odds exp(f*_i - f*_j). So a ranker that takes
    the whole list as examined (`examined_beyond` of k - 1 or more) and draws the other document of the pair
    uniformly (`pairs="independent"`) infers "i over j" with probability σ(f*_i - f*_j), given that it infers a
    pair of i and j. With a smaller l the pair (i, j) can be inferred only one way round, and the law is lost.
    """

    judges_by: ClassVar[Judgement] = "scores"

    @property
    def spec(self) -> str:
        """The user in one line, from which it can be made again."""
        return "preferences"

    def check(self, scores: ArrayLike) -> None:
        """Refuse scores that are not finite."""
        if not np.isfinite(np.asarray(scores, np.float64)).all():
            raise BadInput("a true score is not finite", "preferences users need a finite score of every document")

    def click(self, scores: Array, mask: Array, key: Key) -> Array:
        """Return the click on a list of true scores [k]; masked places get none; [k]."""
        chosen = jax.random.categorical(key, jnp.where(mask, scores, -jnp.inf))
        return mask & (jnp.arange(scores.shape[0]) == chosen)


def preferences(n_grades: int, stop: str = "examined") -> Luce:
    """Return the user, who looks at no grade and never stops."""
    return Luce()


PUBLISHED: dict[str, tuple[Callable[..., ClickModel], str]] = {
    "preferences": (preferences, "prefers i to j with probability σ(f*_i − f*_j); needs data with a known truth"),
}
