"""Small models, impressions and logs that the tests of the service share."""

from __future__ import annotations

from typing import Any

import numpy as np

from perturank.service.entries import Changed, Impression
from perturank.service.log import Log
from perturank.service.packing import packed
from perturank.service.sealing import fresh
from perturank.service.spec import Spec

N_FEATURES = 5
PLACES = 4
IDS = ["a", "b", "c", "d"]


def spec(ranker: str = "pdgd-linear", **changes: Any) -> Spec:
    """Return a model of 5 features and 4 places; networks have 4 units."""
    settings = changes.pop("settings", {})
    if ranker.startswith("p2neur"):
        settings = {"widths": [4], "budget": 32} | settings
    return Spec(n_features=N_FEATURES, ranker=ranker, settings=settings, places=PLACES, **changes).checked()


def rows(n: int = 4, seed: int = 0) -> np.ndarray:
    """Return n random documents."""
    return np.random.default_rng(seed).uniform(-1, 1, (n, N_FEATURES)).astype(np.float32)


def impression(seed: int = 0, *, generation: int = 1, source: str | None = None, **changes: Any) -> Impression:
    """Return a list of four documents a, b, c, d, shown by a ranker without a memo."""
    values = {"version": 0, "mode": "learn", "ids": IDS, "log_propensity": -1.0} | changes
    return Impression(generation, packed=packed(rows(seed=seed), None, []), source=source, **values)


def created(log: Log, model: str = "m", **changes: Any) -> int:
    """Create a model and return the position."""
    with log.transaction() as transaction:
        return transaction.append(model, Changed(0, spec(**changes)))


def shown(log: Log, entry: Impression | None = None, model: str = "m") -> bytes:
    """Log an impression and return its name."""
    name = fresh(log.tail())
    with log.transaction() as transaction:
        transaction.append(model, entry or impression(), name)
    return name
