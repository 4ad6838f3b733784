"""The models of the game: one that learns to search the library, and another that may be put beside it."""

from __future__ import annotations

from typing import Any

from perturank.catalogue import rankers
from perturank.errors import unknown
from perturank.play.features import NAMES

LEARNING = "library"
RANKER = "p2headrank"
SETTINGS: dict[str, Any] = {  # so that a few clicks show: see docs/play.md
    "loss": "symmetric",
    "n_steps": 8,
    "l2": 0.3,
    "l2_output": 3.0,
    "l2_hidden": 0.3,
    "noise_std": 0.03,
    "early_noise": 1.0,
    "floor": 0.0,
}
PLACES = 10
NOBODY = "none"


def spec(ranker: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return a model in the words of PUT /v1/models/{model}."""
    return {
        "n_features": len(NAMES),
        "ranker": ranker,
        "settings": settings,
        "features": [{"name": name} for name in NAMES],
        "places": PLACES,
        "seed": seed,
    }


def beside(ranker: str) -> str:
    """Return the name of the model of a ranker that is put beside; a ranker that does not exist is refused."""
    if ranker not in rankers():
        raise unknown("ranker", ranker, rankers())
    return f"{LEARNING}-beside-{ranker}"
