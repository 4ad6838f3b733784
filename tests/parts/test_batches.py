"""Rounds of a simulation that are learned together."""

from __future__ import annotations

import numpy as np
import pytest

from perturank import clicks, datasets
from perturank.catalogue import rankers
from perturank.errors import BadInput
from perturank.simulation import Plan, simulate


def test_rounds_of_a_batch_are_ranked_by_the_ranker_before_it() -> None:
    fold = datasets.load("synthetic-linear")
    user = clicks.user("perfect", fold.n_grades)

    def ndcgs(batch: int) -> np.ndarray:
        settings = rankers()["pdgd-linear"].settings
        return simulate(Plan("pdgd-linear", settings, user, fold, 40, batch=batch)).ndcgs

    one, ten = ndcgs(1), ndcgs(10)
    start = simulate(
        Plan("pdgd-linear", rankers()["pdgd-linear"].settings.changed(learning_rate=1e-30), user, fold, 10)
    )
    np.testing.assert_allclose(ten[:10], start.ndcgs, rtol=1e-6)  # nothing is learned before the tenth round
    assert (one[1:10] != ten[1:10]).any()
    assert (ten[10:] != ndcgs(20)[10:]).any()


def test_batches_are_learned_whole() -> None:
    fold = datasets.load("synthetic-linear")
    settings = rankers()["pdgd-linear"].settings
    with pytest.raises(BadInput, match="must divide 100"):
        Plan("pdgd-linear", settings, clicks.user("perfect", fold.n_grades), fold, 100, batch=30)
