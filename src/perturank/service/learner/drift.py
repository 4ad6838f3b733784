"""Drift: whether the best estimate's lists please people less than they did, and what is done about it.

The signal is a list's reciprocal rank of the first click in the order of the best estimate, as `log/quality.py`
estimates it from lists that explored: it does not fall because a model explores. Lists without a click are left out.
They are complete only when their window closes, so at the end of a busy hour they would come in a crowd.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from perturank.core import Fades, Ranker
from perturank.drift import Fall, Watch
from perturank.service.log import Transaction, live_tests, quality
from perturank.service.log.records import Changed, Drifted, Impression
from perturank.service.log.spec import Spec
from perturank.wire.live_tests import LiveTest
from perturank.wire.specification import Ubi

# Chosen on simulated users whose intent changes: docs/service/drift.md.
MOST_WEIGHT = 5.0  # of a list; a few heavy ones would else pass for a change
FADED = 0.1  # what all that was seen before weighs, when a model forgets
CHALLENGER, TEST = "-challenger", "-drift"  # behind a model's name
LONGEST_NAME = 64


def signal(shown: Impression, worth: Mapping[str, float]) -> float | None:
    """Return what a list says of the best estimate, by the worth of its documents; None: nothing."""
    place = next((i for i, document in enumerate(shown.ids, start=1) if worth.get(document, 0) > 0), None)
    if place is None or not quality.is_counted(shown):
        return None
    if shown.mode == "exploit":
        return 1 / place
    if shown.agreed is None:
        return None
    weights = [min(weight, MOST_WEIGHT) for weight in quality.weights(shown.agreed)]
    return quality.quality(weights, place, [0.0] * len(shown.ids)).rank


def watched(watch: Watch, signals: Iterable[float | None]) -> Watch:
    """Return what is remembered after these lists; once an alarm is due, nothing more is added until it is raised."""
    for each in signals:
        if each is not None and watch.fall is None:
            watch = watch.after(each)
    return watch


def faded(ranker: Ranker) -> Ranker:
    """Return the ranker that gives less weight to all that it has seen; one that cannot stays as it is."""
    return ranker.faded(FADED) if isinstance(ranker, Fades) else ranker


def write(transaction: Transaction, model: str, spec: Spec, found: Fall) -> None:
    """Write a drift of this model, and begin what the model does on drift."""
    transaction.append(model, Drifted(found.n, found.before, found.after, spec.on_drift))
    if spec.on_drift == "challenger":
        _begin_challenger(transaction, model, spec)


def _begin_challenger(transaction: Transaction, model: str, spec: Spec) -> None:
    """Create a fresh model of the same specification, and a live test beside the old one, unless it exists already."""
    name, test = (f"{model[: LONGEST_NAME - len(end)]}{end}" for end in (CHALLENGER, TEST))
    if transaction.find_model(name) is not None:
        return
    fresh = msgspec.structs.replace(spec, on_drift="alarm", ubi=Ubi(), columns=None, width=0)
    transaction.append(name, Changed(0, fresh))
    arms = LiveTest((model, name), learns="all", actions=dict(spec.actions), window=spec.window)
    live_tests.put(transaction, test, arms)
