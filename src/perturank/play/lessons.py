"""What a click says: this document was preferred over those."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from perturank.parts.preferences import preferred


@dataclass(frozen=True)
class Lesson:
    """One preference, and who gave it."""

    winner: str
    loser: str
    query: str
    who: str


def lessons(
    settings: Mapping[str, Any], shown: Sequence[str], clicked: Collection[str], query: str, who: str
) -> list[Lesson]:
    """Return the preferences that a ranker of these settings infers from these clicks, by the very rule that it uses.

    Rankers that know no pairs (DBGD, MGD, random lists) infer none.
    """
    if "examined_beyond" not in settings:
        return []
    clicks = jnp.asarray([path in clicked for path in shown])
    beyond, inclusion = settings["examined_beyond"], settings.get("inclusion", "paper")
    wins = preferred(clicks, jnp.ones(len(shown), bool), beyond, inclusion)
    return [Lesson(shown[i], shown[j], query, who) for i, j in np.argwhere(np.asarray(wins))]
