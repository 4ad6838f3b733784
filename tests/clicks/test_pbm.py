from __future__ import annotations

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import clicks as oracle

from perturank.clicks.pbm import PBM, position_based
from perturank.errors import BadInput

DRAWS = 40_000


@pytest.mark.parametrize(
    "model, p_examine",
    [
        (PBM.table([0.1, 0.6, 1.0], eta=0.5), [1, 2**-0.5, 3**-0.5]),
        (PBM.table([0.1, 0.6, 1.0], examine=[0.9, 0.2, 0.7, 0.1]), [0.9, 0.2, 0.7]),
    ],
    ids=["eta", "by place"],
)
def test_clicks_have_the_probabilities_of_independent_places(model: PBM, p_examine: list[float]) -> None:
    grades = [2, 0, 1]
    exact = oracle.pbm(grades, [0.1, 0.6, 1.0], p_examine)
    keys = jax.random.split(jax.random.key(5), DRAWS)
    clicks = jax.vmap(lambda key: model.click(jnp.asarray(grades), jnp.ones(3, bool), key))(keys)
    seen = Counter(map(tuple, np.asarray(clicks).tolist()))
    assert sum(exact.values()) == pytest.approx(1)
    for pattern, p in exact.items():
        assert abs(seen[pattern] / DRAWS - p) <= 5 * np.sqrt(p * (1 - p) / DRAWS) + 1e-12


def test_masked_places_get_no_click() -> None:
    model = PBM.table([1.0], eta=0)
    clicks = model.click(jnp.zeros(3, int), jnp.array([True, False, True]), jax.random.key(0))
    assert clicks.tolist() == [True, False, True]


def test_the_named_user_is_attracted_by_gain() -> None:
    expected = [0.1 + 0.9 * (2**grade - 1) / (2**4 - 1) for grade in range(5)]
    np.testing.assert_allclose(position_based(5).p_click, expected, rtol=1e-6)


def test_a_longer_list_than_the_examined_places_is_refused() -> None:
    with pytest.raises(BadInput, match="examines 2 places of a list of 3"):
        PBM.table([1.0], examine=[1, 0.5]).examination(3)


def test_a_negative_eta_is_refused() -> None:
    with pytest.raises(BadInput, match="eta"):
        PBM.table([1.0], eta=-1)
