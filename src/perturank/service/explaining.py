"""Why is this document here, and was it luck? The rankers' scores, the certain orders, the free set at each place."""

from __future__ import annotations

from typing import Any

import numpy as np

from perturank.core import Query, Ranker


def explained(
    ranker: Ranker, ids: list[str], features: np.ndarray, prior: np.ndarray | None, top: int
) -> dict[str, Any]:
    """Return, for the best estimate's list, each document's scores, what certainly precedes it, and who was free.

    Rankers without certain orders have scores alone.
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
    return {"ranking": places}


def _certain(ranker: Ranker, query: Query, scores: np.ndarray, n: int) -> np.ndarray | None:
    """Return C[i, j]: i certainly before j; [n, n]."""
    if hasattr(ranker, "certain"):
        return np.asarray(ranker.certain(query))[:n, :n]
    if hasattr(ranker, "scores"):
        return np.asarray(np.all(scores[:, None, :] > scores[None, :, :], axis=2))
    return None
