"""What the service explains of every ranker is what the ranker does."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from helpers import small

from perturank.catalogue import rankers
from perturank.core import CertainOrders
from perturank.service.serving.explain import explained
from perturank.wire.specification import Exploration

N = 6
IDS = list("abcdef")


def explanation(ranker: Any, order: Any = None) -> dict[str, Any]:
    return explained(ranker, IDS, small.rows(N), None, Exploration(), small.PLACES, order=order)


@pytest.mark.parametrize("name", rankers())
def test_scores_are_those_by_which_it_ranks(name: str) -> None:
    ranker = small.learned(name)
    places = explanation(ranker)["ranking"]
    score = np.asarray(ranker.score(small.query(N)))[:N]
    assert [each["id"] for each in places] == [IDS[row] for row in np.argsort(-score, kind="stable")][: small.PLACES]
    for each in places:
        assert each["score"] == pytest.approx(score[IDS.index(each["id"])], abs=1e-5)
        assert np.mean(each["scores"]) == pytest.approx(each["score"], abs=1e-5)
        assert ("free" in each) == isinstance(ranker, CertainOrders)


@pytest.mark.parametrize("name", small.able(CertainOrders))
def test_who_was_free_is_counted_as_the_ranker_counted(name: str) -> None:
    ranker = small.learned(name)
    for seed in range(5):
        ranking = ranker.rank(small.query(N), jax.random.key(seed), small.PLACES)
        places = explanation(ranker, ranking.documents)["ranking"]
        assert [len(each["free"]) for each in places] == np.asarray(ranking.free).tolist()
        assert all(each["id"] in each["free"] for each in places)
        assert [each["certain"] for each in places] == [n == 1 for n in np.asarray(ranking.free)]
