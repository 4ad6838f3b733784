from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import certainty as oracle
from oracles import covariance
from oracles.ordering import free, topological_lists

from perturank.parts import certainty

RNG = np.random.default_rng(11)
X = RNG.normal(size=(8, 5)).astype(np.float32)
PAIRS = RNG.normal(size=(20, 5)).astype(np.float32)
EVERY = jnp.ones(8, bool)
MASK = jnp.arange(8) < 6


@settings(max_examples=30, deadline=None)
@given(arrays(np.float32, (8, 3), elements=st.integers(-2, 2).map(float)))
def test_an_order_is_certain_where_all_rankers_agree_and_a_tie_is_none(scores: np.ndarray) -> None:
    expected = oracle.unanimous(scores.T)
    np.testing.assert_array_equal(certainty.unanimous(jnp.asarray(scores), EVERY), expected)
    masked = np.asarray(certainty.unanimous(jnp.asarray(scores), MASK))
    np.testing.assert_array_equal(masked[:6, :6], expected[:6, :6])
    assert not masked[6:].any()
    assert not masked[:, 6:].any()
    before = np.asarray(certainty.n_unanimous_before(jnp.asarray(scores), MASK))
    np.testing.assert_array_equal(before, masked.sum(0))
    assert [d for d in range(6) if before[d] == 0] == free(expected[:6, :6], ())
    share = certainty.uncertain_share(jnp.asarray(masked), MASK)
    assert float(share) == pytest.approx(oracle.uncertain_share(expected[:6, :6]), abs=1e-6)


def test_scores_that_differ_in_the_last_bit_are_not_tied() -> None:
    scores = jnp.asarray([[1.0], [np.nextafter(np.float32(1), np.float32(2))]])
    assert certainty.unanimous(scores, EVERY[:2]).tolist() == [[False, False], [True, False]]


@pytest.mark.parametrize("diagonal", [False, True])
def test_distances_are_those_in_the_norm_of_the_inverse_covariance(diagonal: bool) -> None:
    a = oracle.covariance(PAIRS, 0.3, diagonal)
    if diagonal:
        kernel = certainty.kernel_diagonal(jnp.asarray(X), jnp.asarray(np.diag(a), jnp.float32))
    else:
        kernel = certainty.kernel_full(jnp.asarray(X), jnp.asarray(a, jnp.float32))
    np.testing.assert_allclose(certainty.distances(kernel), oracle.widths(X, a), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
def test_an_order_is_confident_outside_its_width(alpha: float) -> None:
    scores, a = X @ RNG.normal(size=5).astype(np.float32), oracle.covariance(PAIRS, 0.3)
    widths = jnp.asarray(alpha * oracle.widths(X, a), jnp.float32)
    expected = oracle.confident(scores, X, a, alpha)
    assert alpha == 0 or 0 < expected.sum() < 28
    np.testing.assert_array_equal(certainty.confident(jnp.asarray(scores), widths, EVERY), expected)
    masked = np.asarray(certainty.confident(jnp.asarray(scores), widths, MASK))
    expected[6:], expected[:, 6:] = False, False
    np.testing.assert_array_equal(masked, expected)


@settings(max_examples=50, deadline=None)
@given(
    arrays(np.float32, 6, elements=st.integers(-3, 3).map(float)),
    arrays(bool, (6, 6)),
    arrays(bool, (6, 6)),
    st.integers(1, 6),
)
def test_orders_that_are_not_doubtful_never_change_the_top(
    scores: np.ndarray, relation: np.ndarray, known: np.ndarray, k: int
) -> None:
    certain = relation & (scores[:, None] > scores)
    sure = certain & known
    doubtful = np.asarray(certainty.doubtful(jnp.asarray(scores), jnp.asarray(sure), jnp.ones(6, bool), k))
    assert not (doubtful & (sure | (scores[:, None] <= scores))).any()
    assert topological_lists(sure | (doubtful & certain), k) == topological_lists(certain, k)


@settings(max_examples=30, deadline=None)
@given(arrays(bool, (8, 8)), st.permutations(range(8)))
def test_a_closure_holds_every_chain(relation: np.ndarray, order: list[int]) -> None:
    acyclic = (relation & np.triu(np.ones((8, 8), bool), 1))[order][:, order]
    for certain in (acyclic, relation):
        np.testing.assert_array_equal(certainty.closure(jnp.asarray(certain)), oracle.closure(certain))


def test_the_longest_chain_is_closed() -> None:
    chain = np.eye(17, k=1).astype(bool)
    np.testing.assert_array_equal(certainty.closure(jnp.asarray(chain)), np.triu(np.ones((17, 17), bool), 1))


@pytest.mark.parametrize("n, share", [(0, 0.0), (1, 0.0), (2, 1.0)])
def test_a_query_without_pairs_is_not_uncertain(n: int, share: float) -> None:
    assert float(certainty.uncertain_share(jnp.zeros((4, 4), bool), jnp.arange(4) < n)) == share


def test_the_exploration_factor_is_that_of_the_lemma() -> None:
    ratio = covariance.log_det_ratio(PAIRS.astype(np.float64), 0.3)
    found = certainty.exploration_factor(jnp.asarray(ratio), 5, delta=0.1, noise_bound=0.5)
    assert float(found) == pytest.approx(covariance.alpha(PAIRS.astype(np.float64), 0.3, 0.1, 0.5, c_mu=0.25), rel=1e-5)
