"""Jobs and outcomes without a simulation behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from perturank.results.job import Job, settings_of
from perturank.results.manifest import made_by
from perturank.results.outcome import MEASURES, RunOutcome


def job(**changes: Any) -> Job:
    fields: dict[str, Any] = {
        "ranker": "pdgd-linear",
        "settings": settings_of("pdgd-linear", {}),
        "data": "synthetic:12",
        "content": "abc",
        "fold": 1,
        "user": "perfect",
        "rounds": 20,
        "seed": 1,
        "evaluate_at": (10, 20),
    }
    return Job(**fields | changes)


def outcome(of: Job | None = None, /, **finals: float) -> RunOutcome:
    of = of or job()
    n = len(of.evaluate_at)
    measures = {name: np.full(n, finals.get(name, 1.0)) for name in MEASURES}
    return RunOutcome(of, np.array(of.evaluate_at), measures, made_by())
