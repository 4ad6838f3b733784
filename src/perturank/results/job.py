"""One run in words: everything that decides it, and the name that follows from that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from perturank import catalogue, clicks, datasets
from perturank.hyperparameters import Settings, without_newer
from perturank.simulation import Plan


@dataclass(frozen=True)
class Job:
    """A run. `settings` are all of the ranker's, as JSON; `content` says which data `data` stands for.

    A job whose result is not stored may leave `content` empty. `batch` rounds are learned together, with one fit.
    With `keeps_orders` the result holds scores and certain orders of held-out queries at every evaluation.
    """

    ranker: str
    settings: str
    data: str
    content: str
    fold: int
    user: str
    rounds: int
    seed: int
    evaluate_at: tuple[int, ...]
    stop: str = "examined"
    top: int = 10
    evaluate_on: str = "test"
    threads: int = 1
    keeps_orders: bool = False
    batch: int = 1

    @cached_property
    def key(self) -> str:
        """The run's name: a digest of all that decides it, wherever its data lie."""
        decides = asdict(self)
        del decides["data"]
        for newer, default in (("keeps_orders", False), ("batch", 1)):  # a run without them keeps its earlier name
            if decides[newer] == default:
                del decides[newer]
        decides["settings"] = json.dumps(without_newer(self.chosen), sort_keys=True)
        return hashlib.blake2b(json.dumps(decides, sort_keys=True).encode(), digest_size=12).hexdigest()

    @property
    def chosen(self) -> dict[str, Any]:
        """The ranker's settings as plain values."""
        return json.loads(self.settings)

    def plan(self) -> Plan:
        """Return what a simulation needs; mistakes are found here."""
        return self.plan_on(datasets.load(self.data, fold=self.fold))

    def plan_on(self, fold: datasets.Fold) -> Plan:
        """Return what a simulation needs, on data that are loaded already."""
        settings = catalogue.load_published(self.ranker).settings.changed(**self.chosen)
        catalogue.import_scorer(settings)
        return Plan(
            ranker=self.ranker,
            settings=settings,
            user=clicks.user(self.user, fold.n_grades, stop=self.stop),
            fold=fold,
            rounds=self.rounds,
            seed=self.seed,
            evaluate_at=self.evaluate_at,
            top=self.top,
            evaluate_on=self.evaluate_on,
            keeps_orders=self.keeps_orders,
            batch=self.batch,
        )


def settings_of(ranker: str, changes: Mapping[str, Any]) -> str:
    """Return all settings of a ranker, some of them changed, as they stand in a job.

    >>> json.loads(settings_of("pairrank", {"alpha": 0.1}))["alpha"]
    0.1
    """
    return as_json(catalogue.load_published(ranker).settings.changed(**changes))


def as_json(settings: Settings) -> str:
    """Return a ranker's settings as they stand in a job."""
    return json.dumps(settings.as_dict(), sort_keys=True)
