"""Why is this document here, and was it luck? The rankers' scores, the certain orders, the free set at each place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from perturank.core import Query, Ranker
from perturank.service.listing import Listed

MOST_IN_GRAPH = 60  # documents, the best first: more would not be looked at


def explained(
    ranker: Ranker, ids: list[str], features: np.ndarray, prior: np.ndarray | None, top: int
) -> dict[str, Any]:
    """Return, for the best estimate's list, each document's scores, what certainly precedes it, and who was free.

    Rankers without certain orders have scores alone; others have the graph of their certain orders too.
    """
    query = Query.of(features, prior=prior)
    n = len(ids)
    score = np.asarray(ranker.score(query))[:n]
    scores = np.asarray(ranker.scores(query))[:n] if hasattr(ranker, "scores") else score[:, None]
    certain = _certain(ranker, query, scores, n)
    order = np.argsort(-score, kind="stable")
    places = []
    for place, row in enumerate(order[:top]):
        about: dict[str, Any] = {"id": ids[row], "score": float(score[row]), "scores": scores[row].tolist()}
        if certain is not None:
            left = order[place:]
            free = [int(each) for each in left if not certain[np.ix_(left, [each])].any()]
            about["certainly_after"] = [ids[each] for each in np.flatnonzero(certain[:, row])]
            about["free"] = [ids[each] for each in free]
            about["certain"] = free == [int(row)]
        places.append(about)
    found: dict[str, Any] = {"ranking": places, "graph": None, "certain_pairs": None}
    if certain is not None:
        found["graph"] = graph([ids[row] for row in order], certain[np.ix_(order, order)])
        found["certain_pairs"] = 2 * float(certain.sum()) / (n * (n - 1)) if n > 1 else None
    return found


def _certain(ranker: Ranker, query: Query, scores: np.ndarray, n: int) -> np.ndarray | None:
    """Return C[i, j]: i certainly before j; [n, n]."""
    if hasattr(ranker, "certain"):
        return np.asarray(ranker.certain(query))[:n, :n]
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
