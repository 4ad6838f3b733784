"""The paper's experiments, one file each. The folder is the registry: a new experiment is one new file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

from perturank.errors import unknown
from perturank.experiments.comparison import COMPARISON
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


def chosen(names: Sequence[str], rankers: Sequence[str] = ()) -> list[Experiment]:
    """Return the experiments of these names, all where none is given; an unknown name is refused.

    Where rankers are given they are the arms; without a name they are compared in an experiment of their own.
    """
    known = experiments()
    for name in names:
        if name not in known:
            raise unknown("experiment", name, known)
    if rankers:
        return [each.with_rankers(rankers) for each in ([known[n] for n in known if n in names] or [COMPARISON])]
    return [known[name] for name in known if not names or name in names]
