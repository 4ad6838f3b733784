from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small
from oracles import scale as oracle

from perturank import catalogue, storage
from perturank.core import (
    CertainOrders,
    Ensemble,
    FitsBatches,
    Interaction,
    KeepsLimits,
    OffPolicy,
    Query,
    Ranker,
    Remembers,
)
from perturank.errors import BadInput
from perturank.parts.standardised import Scale, Standardised, standardised

RANKERS = ["p2headrank", "p2linrank", "p2neurrank", "pairrank", "pdgd-linear", "dbgd-linear", "epsilon-greedy-linear"]


def columns(n: int = 200) -> np.ndarray:
    """Return columns as a shop has them: heavy tails, rare and common flags, constants, dates, nothing, tiny values."""
    chance = np.random.default_rng(0)
    made = [
        chance.lognormal(0, 2, n),
        chance.random(n) < 0.02,
        chance.random(n) < 0.4,
        np.full(n, 7e8),
        1.7e9 + chance.normal(0, 1e5, n),
        np.full(n, np.nan),
        chance.normal(0, 1e-9, n),
        np.where(chance.random(n) < 0.3, np.nan, chance.normal(5, 2, n)),
    ]
    return np.column_stack(made).astype(np.float32)


def inside(name: str, n_features: int) -> Ranker:
    """Return a small ranker of so many columns that has learned nothing."""
    return catalogue.published(name).make(n_features, jax.random.key(0), small.settings(name))


def test_location_and_spread_are_those_of_the_oracle() -> None:
    values = columns()
    found = Scale.of(values)
    for i in range(values.shape[1]):
        location, spread = oracle.location_and_spread(values[:, i].astype(float).tolist())
        assert found.location[i] == pytest.approx(location, rel=1e-5)
        assert found.spread[i] == pytest.approx(spread, rel=1e-5)


def test_standardised_columns_are_those_of_the_oracle_and_never_large() -> None:
    values = columns(40)
    known = Scale.of(values)
    ranker = standardised(inside("pdgd-linear", values.shape[1]), known)
    query = Query.of(values[:, :-1], prior=np.nan_to_num(values[:, -1], nan=5.0), may_miss=True)
    seen = np.asarray(ranker.standardise(query).features)[:40]
    for i in range(values.shape[1] - 1):
        expected = [
            oracle.standardised(float(value), float(known.location[i]), float(known.spread[i]))
            for value in values[:, i]
        ]
        np.testing.assert_allclose(seen[:, i], expected, rtol=2e-4, atol=2e-4)
    assert np.isfinite(seen).all()
    assert np.abs(seen).max() < 12


def test_units_and_offsets_change_nothing() -> None:
    chance = np.random.default_rng(1)
    raw, prior = chance.normal(size=(20, 3)), chance.normal(size=20)
    lists = []
    for factor, offset in ((1.0, 0.0), (0.05, 0.0), (20.0, 3.0)):
        rows, scores = raw * factor + offset, prior * factor
        for scale in (Scale.unknown(4), Scale.of(np.column_stack([rows, scores]))):
            outer = standardised(inside("pdgd-linear", 4), scale)
            query = outer.standardise(Query.of(rows, prior=scores))
            lists.append((np.asarray(query.features), np.asarray(query.prior)))
    for features, scores in lists[2::2]:
        np.testing.assert_allclose(features, lists[0][0], atol=1e-4)
        np.testing.assert_allclose(scores, lists[0][1], atol=1e-4)
    for features, _ in lists[3::2]:
        np.testing.assert_allclose(features, lists[1][0], atol=1e-4)


def test_a_model_that_knows_nothing_begins_with_the_callers_order() -> None:
    outer = standardised(inside("pdgd-linear", 6), Scale.unknown(6))
    prior = np.array([0.01, 0.03, 0.02])
    assert np.argsort(-np.asarray(outer.score(Query.of(small.rows(3), prior=prior)))[:3]).tolist() == [1, 2, 0]
    assert not np.asarray(outer.score(Query.of(small.rows(3), prior=np.full(3, 7.0)))).any()
    assert not np.asarray(outer.score(Query.of(small.rows(3)))).any()


def test_padding_never_changes_a_scale() -> None:
    outer = standardised(inside("pdgd-linear", 6), Scale.unknown(6))
    query = Query.of(small.rows(5), prior=np.arange(5.0))
    other = Query(query.features.at[5:].set(1e6), query.mask, query.ids, query.prior.at[5:].set(-50.0))
    assert small.same_bits(outer.standardise(query).features[:5], outer.standardise(other).features[:5])


def test_a_scale_that_the_owner_has_set_is_kept() -> None:
    fixed, missing = [True, False, False], [0.5, 0.0, 0.0]
    outer = standardised(
        inside("pdgd-linear", 3), Scale(np.array([10.0, 0, 0]), np.array([2.0, 0, 0])), fixed=fixed, missing=missing
    )
    later = outer.with_scale(Scale(np.array([1.0, 1.0, 1.0]), np.array([5.0, 5.0, 5.0])))
    rows = np.array([[110.0, 6.0], [np.nan, np.nan]])
    seen = np.asarray(later.standardise(Query.of(rows, may_miss=True)).features)[:2]
    np.testing.assert_allclose(seen, [[50.0, 1.0, 0.0], [0.5, 0.0, 0.0]])


@pytest.mark.parametrize("name", RANKERS)
def test_it_can_do_what_the_ranker_inside_can(name: str) -> None:
    ranker = inside(name, 6)
    outer = standardised(ranker, Scale.unknown(6))
    protocols: list[Any] = [CertainOrders, Ensemble, KeepsLimits, Remembers, FitsBatches, OffPolicy, Ranker]
    assert [isinstance(outer, each) for each in protocols] == [isinstance(ranker, each) for each in protocols]


@pytest.mark.parametrize("name", RANKERS)
def test_it_learns_what_the_ranker_inside_learns_from_standardised_features(name: str) -> None:
    scale = Scale.of(np.column_stack([small.rows(30), np.arange(30.0)]))
    ranker = inside(name, 6)
    outer = standardised(ranker, scale)
    query = Query.of(small.rows(7), prior=np.arange(7.0))
    ranking = outer.rank(query, jax.random.key(1), 4)
    plain = ranker.rank(outer.standardise(query), jax.random.key(1), 4)
    assert small.same_bits(ranking, plain)
    clicks = jnp.asarray([False, True, False, False])
    after = outer.learn(Interaction.observed(query, ranking, clicks), jax.random.key(2))
    expected = ranker.learn(Interaction.observed(outer.standardise(query), plain, clicks), jax.random.key(2))
    for found, wanted in zip(small.arrays(after.ranker), small.arrays(expected), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(after.spread), np.asarray(outer.spread))


@pytest.mark.parametrize("name", ["p2headrank", "pdgd-linear"])
def test_a_file_takes_raw_features(name: str, tmp_path: Any) -> None:
    scale = Scale.of(np.column_stack([small.rows(30), np.arange(30.0)]))
    outer = standardised(inside(name, 6), scale, names=["a", "b", "c", "d", "e"], strength=0.5)
    storage.save(outer, tmp_path / "model")
    loaded = storage.load(tmp_path / "model")
    assert isinstance(loaded, Standardised)
    assert loaded.names == outer.names
    assert loaded.n_features == 5
    query = Query.of(small.rows(7), prior=np.arange(7.0))
    assert small.same_bits(loaded.score(query), outer.score(query))


def test_a_ranker_of_another_width_is_refused() -> None:
    with pytest.raises(BadInput, match="6 features, the scale 5 columns"):
        standardised(inside("pdgd-linear", 6), Scale.unknown(5))
