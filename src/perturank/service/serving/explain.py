"""Why is this document here, and was it luck? The rankers' scores, the certain orders, the free set at each place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from perturank.core import Array, CertainOrders, Ensemble, Limits, Query, Ranker
from perturank.parts import ordering
from perturank.service.log.records import Impression
from perturank.service.serving.sampling import SampledList
from perturank.wire.specification import ANYWHERE, Exploration

MOST_IN_GRAPH = 60  # documents, the best first: more would not be looked at


class _View(NamedTuple):
    """What a ranker knows of a query: its rankers' scores [V, N], certain orders and F of `free_sets`."""

    scores: Array
    certain: Array | None
    free: Array | None


# Compiled once for each shape. Outside jit, a loop over a new closure, as in olRankNet's kernel and in the scores of
# many documents, is compiled at every call, and what was compiled stays in memory.
@eqx.filter_jit
def _view(ranker: Ranker, query: Query, order: Array, protected: Array, displacement: Array) -> _View:
    """Return what the ranker knows of the query, and who is free at the places of this order [V]."""
    score = ranker.score(query)
    scores = ranker.scores(query) if isinstance(ranker, Ensemble) else score[:, None]
    if not isinstance(ranker, CertainOrders):
        return _View(scores, None, None)
    limits = Limits.of(score, query.mask, protected, displacement, jnp.asarray(True))
    free = ordering.free_sets(ranker.precedes(query), query.mask, order, limits)
    return _View(scores, ranker.certain(query), free)


def explained(
    ranker: Ranker,
    ids: list[str],
    features: np.ndarray,
    prior: np.ndarray | None,
    limits: Exploration,
    top: int | None = None,
    *,
    order: Sequence[int] | np.ndarray | None = None,
) -> dict[str, Any]:
    """Return of each document in this order its scores, what certainly precedes it, and who was free at its place.

    Order None: the best estimate's. Rankers without certain orders have scores alone; others have the graph of their
    certain orders too.
    """
    query = Query.of(features, prior=prior, may_miss=True)
    n = len(ids)
    score = np.asarray(ranker.score(query))[:n]
    best = np.argsort(-score, kind="stable")
    order = (best if order is None else np.asarray(order))[:top]
    view = _view(ranker, query, _padded(order, query.mask.shape[0]), *_reach(limits))
    places: list[dict[str, Any]] = [
        {"id": ids[row], "score": float(score[row]), "scores": np.asarray(view.scores)[row].tolist()} for row in order
    ]
    if view.certain is None or view.free is None:
        return {"ranking": places, "documents": n, "graph": None, "certain_pairs": None}
    certain = np.asarray(view.certain)[:n, :n]
    for about, row, free in zip(places, order, np.asarray(view.free), strict=False):
        about["certainly_after"] = [ids[each] for each in np.flatnonzero(certain[:, row])]
        about["free"] = [ids[each] for each in best[free[best]]]
        about["certain"] = about["free"] == [ids[row]]
    return {
        "ranking": places,
        "documents": n,
        "graph": graph([ids[row] for row in best], certain[np.ix_(best, best)]),
        "certain_pairs": 2 * float(certain.sum()) / (n * (n - 1)) if n > 1 else None,
    }


def _padded(order: np.ndarray, v: int) -> Array:
    """Return the order [k] with all other rows behind it, so that one program serves lists of any length; [v]."""
    return jnp.asarray(np.concatenate([order, np.setdiff1d(np.arange(v), order)]).astype(np.int32))


def _reach(limits: Exploration) -> tuple[Array, Array]:
    """Return how many places are protected, and how far elsewhere a document may be moved."""
    protected = ANYWHERE if limits.share == 0 else limits.protected
    return jnp.asarray(protected), jnp.asarray(limits.most_displacement)


def explored(shown: Impression, *, always: bool) -> list[bool | None]:
    """Return of each place of a logged list whether another document could have stood there; None: nobody knows.

    The log holds the probability of agreeing with the best estimate up to each place, as far as the list did. Under
    a floor of exploration it falls at every place that is not protected, also where one document was free.
    `always`: every list of the model explores, so that a place that leaves it as it was had one candidate.
    """
    n = len(shown.ids)
    if shown.mode != "learn" or shown.log_propensity == 0:
        return [False] * n
    if shown.agreed is None:
        return [None] * n
    steps = np.diff(np.frombuffer(shown.agreed, "<f4"), prepend=np.float32(0))
    found: list[bool | None] = [True if step < 0 else False if always else None for step in steps]
    return [*found, True, *[None] * n][:n]  # where it first disagrees, the best estimate had another


def graph(ids: list[str], certain: np.ndarray) -> list[dict[str, Any]]:
    """Return documents, best first, each with its layer and with those that stand certainly and directly before it.

    A document's layer is one below the lowest layer of all that certainly precede it. `certain` is sorted as the ids.
    """
    certain = certain[:MOST_IN_GRAPH, :MOST_IN_GRAPH]
    steps = certain.astype(np.int32)
    direct = certain & ~(steps @ steps > 0)
    layers: list[int] = []
    for document in range(len(certain)):
        before = np.flatnonzero(certain[:document, document])
        layers.append(1 + max((layers[each] for each in before), default=-1))
    return [
        {"id": ids[document], "layer": layer, "after": np.flatnonzero(direct[:, document]).tolist()}
        for document, layer in enumerate(layers)
    ]


def drawn(draw: Callable[[], SampledList], ids: list[str], n: int) -> dict[str, Any]:
    """Return how often each document stands at each place in n lists, those that stand higher first."""
    lists = [draw().order for _ in range(n)]
    counts = np.zeros((len(ids), len(lists[0])), np.int64)
    for order in lists:
        counts[order, np.arange(len(order))] += 1
    shown = sorted(np.flatnonzero(counts.sum(axis=1)), key=lambda row: tuple(-counts[row]))
    documents = [{"id": ids[row], "places": counts[row].tolist()} for row in shown]
    return {"lists": n, "different": len({tuple(order) for order in lists}), "documents": documents}
