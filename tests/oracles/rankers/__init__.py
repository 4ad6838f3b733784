"""Whole rankers in plain NumPy, one expression per formula: no compilation, no shared pairs, float64.

They are what the paper says and nothing cleverer, to be compared with and to be timed beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .duels import Duelling
from .gradients import PDGD, EpsilonGreedy, Uniform
from .linear_history import P2LinRank, PairRank
from .loop import PlainRanker, one_round
from .network_heads import P2HeadRank
from .network_history import OlRankNet, P2NeurRank

__all__ = ["FAMILIES", "PlainRanker", "one_round", "started"]

FAMILIES: dict[str, Callable[[int, Mapping[str, Any], np.random.Generator], PlainRanker]] = {
    "dbgd": Duelling,
    "epsilon": EpsilonGreedy,
    "mgd": Duelling,
    "olranknet": OlRankNet,
    "p2headrank": P2HeadRank,
    "p2linrank": P2LinRank,
    "p2neurrank": P2NeurRank,
    "pairrank": PairRank,
    "pdgd": PDGD,
    "random": Uniform,
}


def started(name: str, n_features: int, settings: Mapping[str, Any], rng: np.random.Generator) -> PlainRanker | None:
    """Return the plain ranker of this published name with these settings; None where there is none: it is optional."""
    family = FAMILIES.get(name.partition("-")[0])
    return None if family is None else family(n_features, settings, rng)
