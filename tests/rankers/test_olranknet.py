from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small
from oracles import certainty, covariance, network, preferences

from perturank.core import Array, Key, Query
from perturank.parts import ordering
from perturank.parts.tangents import inner
from perturank.simulation import Plan, simulate

L2, M = 0.5, 8
QUERY = small.query(9, seed=2)
X = np.asarray(QUERY.features, np.float64)[:9]
LISTS = [([0, 1, 2, 3], [0]), ([4, 2, 8, 0], [1, 2]), ([5, 6, 7, 8], []), ([3, 1, 2, 0], [3])]


def gradients(ranker: Any) -> np.ndarray:
    """Return g(x; θ)/√m of every document, by hand; [V, p]."""
    net = ranker.theta
    layers = [np.asarray(net.hidden[0][0], np.float64).T, np.asarray(net.output[0], np.float64)]
    found = [network.gradient(layers, x) for x in X]
    return np.stack([np.concatenate([h.T.ravel(), o]) for h, o in found]) / np.sqrt(M)


@cache
def trained(kind: str) -> tuple[Any, np.ndarray]:
    """Return a ranker after a few lists, and the gradient differences it was widened by, each at its own time."""
    ranker, news = (
        small.ranker(
            "olranknet", l2=L2, covariance=kind, start="centred", pairs="all", inclusion="paper", examined_beyond=1
        ),
        [],
    )
    for t, (order, clicked) in enumerate(LISTS):
        clicks, g = [place in clicked for place in range(4)], gradients(ranker)
        weight = preferences.balanced_weight(clicks, 1)
        news += [np.sqrt(weight) * (g[order[i]] - g[order[j]]) for i, j in preferences.all_pairs(clicks, 1)]
        ranker = ranker.learn(small.interaction(QUERY, order, clicked), jax.random.key(t))
    return ranker, np.array(news)


@eqx.filter_jit
def kernel_and_log_det(ranker: Any) -> tuple[Array, Array]:
    documents = ranker.gradients(QUERY.features)
    kernel = ranker.covariance.kernel(documents, inner(documents, documents), QUERY.mask, L2)
    return kernel, ranker.covariance.log_det_ratio(L2)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_its_widths_are_those_of_the_sum_of_outer_products(kind: str) -> None:
    ranker, news = trained(kind)
    a = certainty.covariance(news, L2, diagonal=kind == "diagonal")
    kernel, log_det_ratio = kernel_and_log_det(ranker)
    g = gradients(ranker)
    np.testing.assert_allclose(kernel[:9, :9], g @ np.linalg.inv(a) @ g.T, rtol=1e-3, atol=1e-3)
    log_det = np.linalg.slogdet(a)[1] - len(a) * np.log(L2)
    assert float(log_det_ratio) == pytest.approx(log_det, rel=1e-3)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_its_certain_orders_are_those_outside_the_confidence_width(kind: str) -> None:
    ranker, news = trained(kind)
    a = certainty.covariance(news, L2, diagonal=kind == "diagonal")
    scores = np.asarray(ranker.score(QUERY), np.float64)[:9]
    expected = certainty.confident(scores, gradients(ranker), a, 0.05)
    assert 0 < expected.sum() < 36
    np.testing.assert_array_equal(np.asarray(ranker.certain(QUERY))[:9, :9], expected)


@eqx.filter_jit
def whole_list(ranker: Any, query: Query, key: Key, k: int) -> tuple[ordering.Draw, Array, Array]:
    """Return the list that follows all certain orders, how many these are, and how many were looked at for it."""
    certain = ranker.certain(query)
    before = jnp.sum(certain, axis=0, dtype=jnp.int32)
    shown = ordering.topological(before, lambda pick: certain[pick], query.mask, key, k)
    return shown, jnp.sum(certain), jnp.sum(ranker.certain_before(query, k))


@pytest.mark.parametrize(
    "kind, k", [("full", 1), pytest.param("full", 4, marks=pytest.mark.as_shipped), ("diagonal", 1), ("diagonal", 4)]
)
def test_orders_that_it_leaves_out_never_change_a_list(kind: str, k: int) -> None:
    ranker, n_all, n_seen = trained(kind)[0], 0, 0
    for t in range(200):
        query, key = small.query(2 + t % 15, seed=100 + t), jax.random.key(t)
        expected, n, seen = whole_list(ranker, query, key, k)
        found = ranker.rank(query, key, k)
        assert small.same_bits((found.order, found.free), (expected.order, expected.free))
        assert expected.log_propensity is not None
        np.testing.assert_allclose(found.log_propensity, expected.log_propensity, atol=1e-5)
        n_all, n_seen = n_all + int(n), n_seen + int(seen)
    assert 0 < n_seen < n_all


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_chunks_and_interruptions_change_nothing(kind: str, tmp_path: Path) -> None:
    settings = small.settings("olranknet", covariance=kind, widths=(64,))  # A⁻¹ needs two tiles
    plan = Plan("olranknet", settings, small.PERFECT, small.fold(), 40, 3, (), small.PLACES)
    whole = simulate(plan)
    with pytest.raises(KeyboardInterrupt):
        simulate(plan, checkpoint=tmp_path / "run", on_progress=stop, longest_chunk=7)
    for run in (simulate(plan, longest_chunk=9), simulate(plan, checkpoint=tmp_path / "run")):
        assert small.same_bits(run.ndcgs, whole.ndcgs)
        assert small.same_bits(run.ranker, whole.ranker)


def stop(n: int) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_a_first_round_is_compiled_once(kind: str) -> None:
    ranker = small.ranker("olranknet", covariance=kind)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(eqx.filter(ranker, eqx.is_array)))


def test_the_width_of_the_lemma_is_that_of_its_alpha() -> None:
    ranker, news = trained("full")
    alpha = covariance.alpha(news, L2, 0.2, 0.5, c_mu=0.25)
    by_lemma, by_number = (
        eqx.tree_at(lambda r: r.theta, type(ranker)(ranker.settings.changed(**changes), *fields(ranker)), ranker.theta)
        for changes in ({"alpha": "lemma", "delta": 0.2, "noise_bound": 0.5}, {"alpha": alpha})
    )
    assert float(by_lemma.alpha()) == pytest.approx(float(by_number.alpha()), rel=1e-3)


def fields(ranker: Any) -> tuple[Any, ...]:
    return ranker.history, ranker.theta, ranker.theta_0, ranker.optimiser, ranker.covariance
