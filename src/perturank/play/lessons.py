"""What a click says: this document was preferred over those."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from perturank.parts.preferences import preferred
from perturank.rankers.p2rank import P2NeurSettings


@dataclass(frozen=True)
class Lesson:
    """One preference, and who gave it."""

    winner: str
    loser: str
    query: str
    who: str


def lessons(shown: Sequence[str], clicked: Collection[str], query: str, who: str) -> list[Lesson]:
    """Return the preferences that the ranker infers from these clicks, by the very rule that it uses."""
    rule, clicks = P2NeurSettings(), np.array([path in clicked for path in shown])
    wins = preferred(jnp.asarray(clicks), jnp.ones(len(shown), bool), rule.examined_beyond, rule.inclusion)
    return [Lesson(shown[i], shown[j], query, who) for i, j in np.argwhere(np.asarray(wins))]
