"""Why is this document here, and was it luck? The rankers' scores, the certain orders, the free set at each place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from perturank.core import Array, CertainOrders, Query, Ranker, bucket
from perturank.parts import certainty
from perturank.service.entries import Impression
from perturank.service.listing import Listed
from perturank.wire.specification import Exploration

MOST_IN_GRAPH = 60  # documents, the best first: more would not be looked at


# Compiled once for each shape. Outside jit, a loop over a new closure, as in olRankNet's kernel and in the scores of
# many documents, is compiled at every call, and what was compiled stays in memory.
_closure = eqx.filter_jit(certainty.closure)


@eqx.filter_jit
def _scores_of(ranker: Any, query: Query) -> Array:
    return ranker.scores(query)


@eqx.filter_jit
def _certain_of(ranker: CertainOrders, query: Query) -> Array:
    return ranker.certain(query)


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
    query = Query.of(features, prior=prior)
    n = len(ids)
    score = np.asarray(ranker.score(query))[:n]
    scores = np.asarray(_scores_of(ranker, query))[:n] if hasattr(ranker, "scores") else score[:, None]
    best = np.argsort(-score, kind="stable")
    order = (best if order is None else np.asarray(order))[:top]
    places: list[dict[str, Any]] = [
        {"id": ids[row], "score": float(score[row]), "scores": scores[row].tolist()} for row in order
    ]
    certain = _certain(ranker, query, scores, n)
    if certain is None:
        return {"ranking": places, "documents": n, "graph": None, "certain_pairs": None}
    precedes = _between_blocks(certain, best) if _shuffles_blocks(ranker) else certain
    for about, row, free in zip(places, order, free_sets(precedes, best, order, limits), strict=True):
        about["certainly_after"] = [ids[each] for each in np.flatnonzero(certain[:, row])]
        about["free"] = [ids[each] for each in free]
        about["certain"] = free == [row]
    return {
        "ranking": places,
        "documents": n,
        "graph": graph([ids[row] for row in best], certain[np.ix_(best, best)]),
        "certain_pairs": 2 * float(certain.sum()) / (n * (n - 1)) if n > 1 else None,
    }


def free_sets(
    precedes: np.ndarray, best: np.ndarray, order: Sequence[int] | np.ndarray, limits: Exploration
) -> Iterator[list[int]]:
    """Yield who may stand at each place of an order when those above it are placed, the best first.

    It is what `parts.ordering` draws from under `core.Limits`: precedes [n, n] says who must be placed before whom,
    best [n] is the order of the best estimate. A floor of exploration lets others stand there too, now and then.
    """
    standing = np.argsort(best)
    left, waiting = np.ones(len(best), bool), precedes.sum(axis=0)
    for place, row in enumerate(order):
        free = left & (waiting == 0)
        yield best[_within(free, left, standing, place, limits)[best]].tolist()
        left[row] = False
        waiting -= precedes[row]


def _within(free: np.ndarray, left: np.ndarray, standing: np.ndarray, place: int, limits: Exploration) -> np.ndarray:
    """Return which of the free documents [n] the limits allow here: see `core.Limits.within`."""
    is_fixed = place < limits.protected or limits.share == 0
    if not is_fixed and limits.displacement is None:
        return free
    near = free & (standing - standing[left].min() <= (0 if is_fixed else limits.displacement))
    return near if near.any() else free & (standing == standing[free].min())


def _shuffles_blocks(ranker: Any) -> bool:
    return getattr(getattr(ranker, "settings", None), "sort", None) == "blocks"


def _between_blocks(certain: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return B[i, j]: i is in an earlier block than j: see `parts.ordering.blocks`; [n, n]."""
    # Padded as queries are: otherwise every number of documents would be compiled for itself.
    padded = np.pad(certain, (0, bucket(len(best)) - len(best)))
    sure = np.asarray(_closure(jnp.asarray(padded)))[np.ix_(best, best)]
    # A block ends where nobody in it or above is without a certain order to somebody below.
    reach = np.maximum.accumulate(len(best) - 1 - np.argmax(~sure[:, ::-1], axis=1))
    ends = reach == np.arange(len(best))
    block = (np.cumsum(ends) - ends)[np.argsort(best)]
    return np.asarray(block[:, None] < block[None, :])


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


def _certain(ranker: Ranker, query: Query, scores: np.ndarray, n: int) -> np.ndarray | None:
    """Return C[i, j]: i certainly before j; [n, n]."""
    if isinstance(ranker, CertainOrders):
        return np.asarray(_certain_of(ranker, query))[:n, :n]
    if hasattr(ranker, "scores"):
        return np.asarray(np.all(scores[:, None, :] > scores[None, :, :], axis=2))
    return None


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


def drawn(draw: Callable[[], Listed], ids: list[str], n: int) -> dict[str, Any]:
    """Return how often each document stands at each place in n lists, those that stand higher first."""
    lists = [draw().order for _ in range(n)]
    counts = np.zeros((len(ids), len(lists[0])), np.int64)
    for order in lists:
        counts[order, np.arange(len(order))] += 1
    shown = sorted(np.flatnonzero(counts.sum(axis=1)), key=lambda row: tuple(-counts[row]))
    documents = [{"id": ids[row], "places": counts[row].tolist()} for row in shown]
    return {"lists": n, "different": len({tuple(order) for order in lists}), "documents": documents}
