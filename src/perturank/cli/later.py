"""The modules that load JAX, imported when first used, so that `perturank --help` answers at once.

This is the one place of the package with late imports. They dodge no rule: the command line
stands above all of these modules, and import-linter reads the imports for the type checker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "bench",
    "catalogue",
    "clicks",
    "cluster",
    "datasets",
    "experiments",
    "figures",
    "local",
    "metrics",
    "protocols",
    "report",
    "reproduction",
    "simulation",
    "store",
]


class Later:
    """Stands for a module, and imports it at the first use of one of its names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    from perturank import bench, catalogue, clicks, datasets, experiments, figures, metrics, report, reproduction
    from perturank import simulation as simulation
    from perturank.experiments import protocol as protocols
    from perturank.results import store
    from perturank.sweeps import cluster, local
else:
    bench, catalogue, clicks, datasets, experiments, figures, metrics, report, reproduction, simulation = (
        Later(f"perturank.{name}")
        for name in (
            "bench",
            "catalogue",
            "clicks",
            "datasets",
            "experiments",
            "figures",
            "metrics",
            "report",
            "reproduction",
            "simulation",
        )
    )
    protocols, store = Later("perturank.experiments.protocol"), Later("perturank.results.store")
    cluster, local = Later("perturank.sweeps.cluster"), Later("perturank.sweeps.local")
