from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small

from perturank import catalogue
from perturank.core import Interaction, Query, Ranking, bucket
from perturank.errors import BadInput


@pytest.mark.parametrize("n, size", [(1, 16), (16, 16), (17, 32), (128, 128), (129, 256)])
def test_lengths_are_rounded_up_to_powers_of_two(n: int, size: int) -> None:
    assert bucket(n) == size


def test_a_query_is_padded_with_rows_that_do_not_count() -> None:
    query = Query.of([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], prior=[1, 2, 3])
    assert query.features.shape == (16, 2)
    assert np.asarray(query.mask).tolist() == [True] * 3 + [False] * 13
    np.testing.assert_array_equal(query.features[:3], [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(query.prior[:3], [1, 2, 3])
    assert not np.asarray(query.features)[3:].any()


def test_documents_are_known_by_their_content_unless_they_have_ids() -> None:
    rows = [[0.0, 1.0], [0.0, 1.0], [-0.0, 1.0], [0.0, 2.0]]
    ids = [tuple(row) for row in np.asarray(Query.of(rows).ids)[:4].tolist()]
    assert ids[0] == ids[1] == ids[2] != ids[3]
    priors = [tuple(row) for row in np.asarray(Query.of(rows, prior=[0, 1, 0, 0]).ids)[:4].tolist()]
    assert priors[0] != priors[1]
    given = np.asarray(Query.of(rows, ids=[7, 2**33 + 1, 3, 0]).ids)[:4]
    assert [int(low) + (int(high) << 32) for low, high in given] == [7, 2**33 + 1, 3, 0]


@pytest.mark.parametrize(
    "features, says",
    [
        ([[1.0, float("nan")]], r"features\[0, 1\] is nan"),
        ([[1.0], [float("inf")]], r"features\[1, 0\] is inf"),
        ([[1.0, 2.0], [3.0]], "features must be numbers in rows of equal length"),
        ([["a", "b"]], "features must be numbers"),
        ([1.0, 2.0], "features has 1 axes; it must have 2"),
        ([], "features has 1 axes"),
        (np.zeros((0, 3)), "at least one document"),
        (np.zeros((3, 0)), "at least one document and one feature"),
        (None, "features has 0 axes"),
    ],
)
def test_features_that_make_no_query_are_refused(features: Any, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        Query.of(features)


@pytest.mark.parametrize(
    "given, says",
    [
        ({"prior": [1.0]}, "prior has 1 scores for 2 documents"),
        ({"prior": [1.0, float("nan")]}, r"prior\[1\] is nan"),
        ({"prior": [[1.0, 2.0]]}, "prior has 2 axes"),
        ({"ids": [1]}, "give 2 integers"),
        ({"ids": [1.5, 2.5]}, "give 2 integers"),
        ({"ids": ["a", "b"]}, "give 2 integers"),
    ],
)
def test_priors_and_ids_that_do_not_fit_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        Query.of([[1.0], [2.0]], **given)


def ranking(order: list[int], n: int) -> Ranking:
    return Ranking(jnp.asarray(order), jnp.ones(len(order), jnp.int32), jnp.asarray(n), None, "memo")


def test_clicks_on_rows_become_clicks_on_places() -> None:
    query = small.query(6)
    interaction = Interaction.of(query, ranking([4, 0, 5, 2], 4), [2, 0])
    assert np.asarray(interaction.clicks).tolist() == [False, True, False, True]
    np.testing.assert_array_equal(interaction.shown.features, np.asarray(query.features)[[4, 0, 5, 2]])
    assert interaction.memo == "memo"
    assert not np.asarray(Interaction.of(query, ranking([4, 0, 5, 2], 4), []).clicks).any()


@pytest.mark.parametrize("stranger", [1, 7, -1, 99])
def test_a_click_on_a_document_that_was_not_shown_is_refused(stranger: int) -> None:
    with pytest.raises(BadInput, match=rf"document {stranger} was clicked but not shown; shown were \[4, 0\]"):
        Interaction.of(small.query(6), ranking([4, 0, 7, 8], 2), [0, stranger])


def test_a_click_on_padding_is_none() -> None:
    seen = Interaction.observed(small.query(2), ranking([1, 0, 2, 3], 2), jnp.ones(4, bool))
    assert np.asarray(seen.clicks).tolist() == [True, True, False, False]
    assert ranking([1, 0, 2, 3], 2).documents.tolist() == [1, 0]


def test_values_pass_through_compiled_functions() -> None:
    query = small.query(6)
    again = jax.jit(lambda q: q.take(jnp.asarray([3, 1])))(query)
    assert small.same_bits(again, query.take(jnp.asarray([3, 1])))


def test_a_query_that_does_not_fit_the_ranker_is_refused() -> None:
    ranker = catalogue.make("pdgd-linear", 3)
    with pytest.raises(BadInput, match=r"have 2 features; this ranker was made for 3"):
        ranker.rank(Query.of(np.ones((4, 2))), jax.random.key(0))
    with pytest.raises(BadInput, match="k is 0"):
        ranker.rank(Query.of(np.ones((4, 3))), jax.random.key(0), 0)
    with pytest.raises(BadInput, match="n_features is 0"):
        catalogue.make("pdgd-linear", 0)
