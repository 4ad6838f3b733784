"""Everything that has a name. The folder of rankers is the registry: a new algorithm is one new file."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import jax

from perturank import rankers as folder
from perturank.core import Ranker
from perturank.errors import unknown
from perturank.publishing import Published


@cache
def rankers() -> dict[str, Published]:
    """Return every published ranker by name."""
    modules = [importlib.import_module(f"{folder.__name__}.{m.name}") for m in pkgutil.iter_modules(folder.__path__)]
    return {p.name: p for p in sorted((p for m in modules for p in m.PUBLISHED), key=lambda p: p.name)}


def published(name: str) -> Published:
    """Return the ranker of this name; an unknown name is refused with the nearest one."""
    known = rankers()
    if name not in known:
        raise unknown("ranker", name, known)
    return known[name]


def make(name: str, n_features: int, *, seed: int = 0, **settings: object) -> Ranker:
    """Return a new ranker that has learned nothing.

    >>> ranker = make("pdgd-linear", n_features=3, learning_rate=0.05)
    """
    entry = published(name)
    return entry.make(n_features, jax.random.key(seed), entry.settings.changed(**settings))
