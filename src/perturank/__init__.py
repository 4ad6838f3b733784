"""perturank: online learning to rank that knows which of its orders are certain."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perturank.__about__ import __version__
from perturank.errors import BadInput

if TYPE_CHECKING:
    from perturank.catalogue import make
    from perturank.client import AsyncClient, Client
    from perturank.core import Interaction, Query, Ranker, Ranking
    from perturank.datasets import Dataset
    from perturank.exports import export
    from perturank.parts.past_lists import PastList, learn_from, learn_from_lists
    from perturank.storage import load, save

__all__ = [
    "AsyncClient",
    "BadInput",
    "Client",
    "Dataset",
    "Interaction",
    "PastList",
    "Query",
    "Ranker",
    "Ranking",
    "__version__",
    "export",
    "learn_from",
    "learn_from_lists",
    "load",
    "make",
    "save",
]

# Imported when first used: JAX takes a second to load, and `perturank --help` does not need it.
_HOMES = {
    "AsyncClient": "client",
    "Client": "client",
    "make": "catalogue",
    "Interaction": "core",
    "Query": "core",
    "Ranker": "core",
    "Ranking": "core",
    "Dataset": "datasets",
    "PastList": "parts.past_lists",
    "learn_from": "parts.past_lists",
    "learn_from_lists": "parts.past_lists",
    "export": "exports",
    "load": "storage",
    "save": "storage",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"perturank.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'perturank' has no attribute {name!r}")
