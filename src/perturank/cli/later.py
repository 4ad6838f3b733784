"""The modules that load JAX, imported when first used, so that `perturank --help` answers at once.

This is the one place of the package with late imports. They dodge no rule: the command line
stands above all of these modules, and import-linter reads the imports for the type checker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perturank.errors import BadInput

__all__ = [
    "bench",
    "catalogue",
    "clicks",
    "client",
    "cluster",
    "corpus",
    "crowd",
    "datasets",
    "driving",
    "experiments",
    "figures",
    "keys",
    "learner",
    "local",
    "log_export",
    "log_verify",
    "metrics",
    "opening",
    "playing",
    "protocols",
    "replays",
    "report",
    "reproduction",
    "retention",
    "serving",
    "significance",
    "simulation",
    "snapshots",
    "spec",
    "starting",
    "storage",
    "store",
]


class Later:
    """Stands for a module, and imports it at the first use of one of its names."""

    def __init__(self, name: str, extra: str = "") -> None:
        self._name, self._extra = name, extra

    def __getattr__(self, attribute: str) -> Any:
        try:
            return getattr(importlib.import_module(self._name), attribute)
        except ModuleNotFoundError as error:
            if not self._extra or str(error.name).startswith("perturank"):
                raise
            raise BadInput(f"{error.name} is not installed", f"run: pip install 'perturank[{self._extra}]'") from None


if TYPE_CHECKING:
    from perturank import (
        bench,
        catalogue,
        clicks,
        client,
        datasets,
        driving,
        experiments,
        figures,
        metrics,
        report,
        reproduction,
        significance,
    )
    from perturank import simulation as simulation
    from perturank import storage as storage
    from perturank.bench import serving
    from perturank.experiments import protocol as protocols
    from perturank.play import corpus, crowd, playing
    from perturank.results import store
    from perturank.service import keys, snapshots, spec, starting
    from perturank.service.learner import export as log_export
    from perturank.service.learner import process as learner
    from perturank.service.learner import replay as replays
    from perturank.service.learner import retention
    from perturank.service.learner import verify as log_verify
    from perturank.service.log import opening
    from perturank.sweeps import cluster, local
else:
    bench, catalogue, clicks, datasets, experiments, figures = (
        Later(f"perturank.{name}") for name in ("bench", "catalogue", "clicks", "datasets", "experiments", "figures")
    )
    metrics, report, reproduction, significance, simulation, storage = (
        Later(f"perturank.{name}")
        for name in ("metrics", "report", "reproduction", "significance", "simulation", "storage")
    )
    serving = Later("perturank.bench.serving", "service")
    protocols, store = Later("perturank.experiments.protocol"), Later("perturank.results.store")
    cluster, local = Later("perturank.sweeps.cluster"), Later("perturank.sweeps.local")
    keys, snapshots, spec, starting = (
        Later(f"perturank.service.{name}", "service") for name in ("keys", "snapshots", "spec", "starting")
    )
    log_export, learner, replays, retention, log_verify = (
        Later(f"perturank.service.learner.{name}", "service")
        for name in ("export", "process", "replay", "retention", "verify")
    )
    opening = Later("perturank.service.log.opening", "service")
    corpus, crowd, playing = (Later(f"perturank.play.{name}", "play") for name in ("corpus", "crowd", "playing"))
    client, driving = Later("perturank.client", "service"), Later("perturank.driving", "service")
