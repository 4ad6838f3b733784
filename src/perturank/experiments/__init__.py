"""The paper's experiments, one file each. The folder is the registry: a new experiment is one new file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

from perturank.errors import unknown
from perturank.experiments.experiment import Experiment

__all__ = ["chosen", "experiments"]

# In the order of the paper; others follow by name.
ORDER = (
    "linear-rankers",
    "neural-rankers",
    "ensemble-size-large-noise",
    "ensemble-size-small-noise",
    "efficiency",
    "network-configurations",
    "perturbed-parameters",
    "regret",
    "uncertain-orders",
    "calibration",
)


@cache
def experiments() -> dict[str, Experiment]:
    """Return every experiment by name."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    found = [module.EXPERIMENT for module in modules if hasattr(module, "EXPERIMENT")]
    place = {name: i for i, name in enumerate(ORDER)}
    return {each.name: each for each in sorted(found, key=lambda e: (place.get(e.name, len(ORDER)), e.name))}


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of these names, all where none is given; an unknown name is refused."""
    known = experiments()
    for name in names:
        if name not in known:
            raise unknown("experiment", name, known)
    return [known[name] for name in known if not names or name in names]
