"""One network with heads: the law of their spread, what is certain, and when nothing changes."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small
from oracles import preferences
from oracles.objective import sigmoid

from perturank import catalogue, clicks, datasets
from perturank.core import Query
from perturank.errors import BadInput
from perturank.parts import batches
from perturank.simulation import Plan, simulate

PRIOR = np.linspace(0.5, -0.5, 9)
QUERY = small.query(9, seed=2, prior=PRIOR)
X = np.asarray(QUERY.features, np.float64)[:9]
LISTS = [([0, 1, 2, 3], [0]), ([4, 2, 8, 0], [1, 2]), ([3, 1, 2, 0], [3]), ([5, 6, 7, 8], []), ([0, 1, 2, 3], [0])]
N_HEADS, STD, L2, L2_OUTPUT, EARLY, EARLY_WEIGHT = 8000, 0.3, 0.5, 2.0, 3.0, 4.0
GIVEN: dict[str, Any] = {
    "pairs": "all",
    "inclusion": "paper",
    "examined_beyond": 1,
    "beyond_weight": 1.0,
    "noise_std": STD,
    "early_noise": EARLY,
    "early_weight": EARLY_WEIGHT,
    "l2": L2,
    "l2_output": L2_OUTPUT,
    "budget": 64,  # more than all pairs
}


def trained(lists: list[tuple[list[int], list[int]]], seed: int = 0, **changes: Any) -> Any:
    ranker = small.ranker("p2headrank", **GIVEN | changes).with_room(len(lists), small.PLACES)
    for t, (order, clicked) in enumerate(lists):
        ranker = ranker.learn(small.interaction(QUERY, order, clicked), jax.random.key(1000 * seed + t))
    return ranker


@cache
def learned(**changes: Any) -> Any:
    """Return a ranker after all lists."""
    return trained(LISTS, **changes)


def last_inputs(ranker: Any) -> np.ndarray:
    """Return z(x) of every document; [9, D]."""
    z = X
    for weight in ranker.fit.theta.hidden:
        z = np.maximum(z @ np.asarray(weight, np.float64), 0)
    return z if ranker.fit.theta.shortcut is None else np.hstack([z, X])


def law(ranker: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return f [9] and ν_t² Z H⁻¹AH⁻¹ Zᵀ [9, 9], pair by pair."""
    z, theta = last_inputs(ranker), ranker.fit.theta
    layers = [theta.output] if theta.shortcut is None else [theta.output, theta.shortcut]
    f = z @ np.concatenate([np.asarray(each, np.float64) for each in layers]) + PRIOR
    a = np.diag([L2_OUTPUT] * len(theta.output) + [L2] * (z.shape[1] - len(theta.output)))
    h, total = a.copy(), 0.0
    for order, clicked in LISTS:
        clicks = [place in clicked for place in range(4)]
        for i, j in preferences.all_pairs(clicks, 1):
            weight, p = preferences.balanced_weight(clicks, 1), float(sigmoid(f[order[i]] - f[order[j]]))
            product = np.outer(z[order[i]] - z[order[j]], z[order[i]] - z[order[j]])
            a, h, total = a + weight * product, h + weight * p * (1 - p) * product, total + weight
    std = STD * (1 + (EARLY - 1) / (1 + total / EARLY_WEIGHT))
    return f, std**2 * z @ np.linalg.solve(h, a) @ np.linalg.inv(h) @ z.T


@pytest.mark.parametrize("shortcut, loss", [(True, "symmetric"), (True, "cross-entropy"), (False, "symmetric")])
def test_heads_spread_as_the_noise_on_the_clicks_moves_the_last_layer(shortcut: bool, loss: str) -> None:
    """Many small steps: the means of z zᵀ and σ'(f) z zᵀ, taken before the last one, are those after it."""
    ranker = learned(n_rankers=N_HEADS, n_steps=50, learning_rate=1e-3, shortcut=shortcut, loss=loss)
    f, covariance = law(ranker)
    scores = np.asarray(ranker.scores(QUERY), np.float64)[:9]
    np.testing.assert_allclose(ranker.score(QUERY)[:9], f, atol=1e-4)
    np.testing.assert_allclose(scores.mean(axis=1), f, atol=1e-3)  # heads come in pairs around f
    n = N_HEADS // 2
    np.testing.assert_allclose((scores[:, :n] + scores[:, n:]) / 2, np.broadcast_to(f[:, None], (9, n)), atol=1e-4)
    error = 5 * np.sqrt(2 / n)
    off = scores[:, :n] - f[:, None]
    np.testing.assert_allclose(off.var(axis=1), np.diag(covariance), rtol=error + 0.02)
    values, vectors = np.linalg.eigh(covariance)
    spanned = values > 1e-3 * values.max()  # in every direction in which the documents differ
    white = (vectors[:, spanned] / np.sqrt(values[spanned])).T @ off
    np.testing.assert_allclose(np.cov(white), np.eye(spanned.sum()), atol=error + 0.03)


# What is certain


def test_before_the_first_click_nothing_is_certain_but_the_prior() -> None:
    ranker = small.ranker("p2headrank")
    assert not np.asarray(ranker.certain(small.query(9, seed=2))).any()
    assert float(ranker.uncertain(small.query(9, seed=2))) == 1
    certain = np.asarray(ranker.certain(QUERY))[:9, :9]
    np.testing.assert_array_equal(certain, PRIOR[:, None] > PRIOR[None, :])
    assert ranker.rank(QUERY, jax.random.key(0), 4).documents.tolist() == [0, 1, 2, 3]


def test_without_noise_every_order_is_certain_but_ties() -> None:
    rows = small.rows(9, seed=2)
    rows[5] = rows[4]
    twins = Query.of(rows, prior=[*PRIOR[:5], PRIOR[4], *PRIOR[6:]])
    ranker = learned(noise_std=0.0)
    f = np.asarray(ranker.score(twins))[:9]
    assert len(set(f.tolist())) == 8
    certain = np.asarray(ranker.certain(twins))[:9, :9]
    np.testing.assert_array_equal(certain, f[:, None] > f[None, :])
    greedy = ranker.rank(QUERY, jax.random.key(0), 4)
    assert greedy.documents.tolist() == np.argsort(-np.asarray(ranker.score(QUERY))[:9])[:4].tolist()
    assert float(greedy.log_propensity) == 0


def test_an_order_is_certain_where_all_heads_agree() -> None:
    ranker = learned(n_rankers=10)
    scores = np.asarray(ranker.scores(QUERY))[:9]
    agreed = np.all(scores[:, None, :] > scores[None, :, :], axis=2)
    assert 0 < agreed.sum() < 36
    np.testing.assert_array_equal(np.asarray(ranker.certain(QUERY))[:9, :9], agreed)


def test_more_noise_leaves_more_uncertain() -> None:
    """The fit knows no noise and the draws are the same: what little noise leaves uncertain, more does too."""
    rankers = [learned(noise_std=std, n_rankers=10) for std in (0.0, 0.1, 0.3, 1.0, 10.0)]
    for ranker in rankers[1:]:
        np.testing.assert_allclose(ranker.score(QUERY), rankers[0].score(QUERY), atol=1e-5)
    certain = [np.asarray(ranker.certain(QUERY)) for ranker in rankers]
    for less, more in pairwise(certain):
        assert (more <= less).all()
    shares = [float(ranker.uncertain(QUERY)) for ranker in rankers]
    assert shares[0] == 0
    assert len(set(shares)) > 3


def share(ranker: Any) -> float:
    return float(ranker.uncertain(small.query(16, seed=7)))


def test_more_heads_leave_more_uncertain() -> None:
    shares = [np.mean([share(trained(LISTS, seed, n_rankers=n)) for seed in range(5)]) for n in (2, 10, 100)]
    assert shares[0] < shares[1] < shares[2]


def test_clicks_make_orders_certain() -> None:
    """Λ keeps the scores from running away: where σ'(f) vanishes, clicks that all agree would spread the heads."""
    given: dict[str, Any] = {"n_rankers": 10, "early_noise": 1.0, "l2": 10.0, "l2_output": 100.0}
    shares = [share(trained(LISTS * n, **given)) for n in (1, 5, 25)]
    assert shares[0] > shares[1] > shares[2]


def test_with_a_bias_a_network_can_prefer_values_in_the_middle() -> None:
    """Without one, f(c·x) = c·f(x): what is best at some x is better still at 2x."""
    middle = Query.of(np.linspace(-2, 2, 9)[:, None])
    near = np.argsort(np.abs(np.linspace(-2, 2, 9) - 1.0), kind="stable").tolist()  # best first: 1.0
    shares = {}
    for bias in (False, True):
        given = GIVEN | {"l2": 0.01, "l2_output": 0.01, "l2_hidden": 0.01, "bias": bias, "noise_std": 0.0}
        settings = small.settings("p2headrank", **given, widths=(16,))
        ranker: Any = catalogue.published("p2headrank").make(1, jax.random.key(0), settings)
        for t in range(60):
            order = near[t % 6 : t % 6 + 4]
            ranker = ranker.learn(small.interaction(middle, order, [0]), jax.random.key(t))
        f = np.asarray(ranker.score(middle))[:9]
        shares[bias] = f.argmax() == near[0]
    assert shares == {False: False, True: True}


def test_what_is_known_of_a_document_beyond_its_features_stays_with_it() -> None:
    """Two documents of equal features under two names: clicks tell them apart, and others of these features stay."""
    rows = np.repeat(small.rows(1), 4, axis=0)
    named = Query.of(rows, ids=[10, 11, 12, 13])
    ranker: Any = small.ranker("p2headrank", **GIVEN | {"l2_document": 0.5, "noise_std": 0.0})
    for t in range(10):
        ranker = ranker.learn(small.interaction(named, [0, 1], [1]), jax.random.key(t))
    f = np.asarray(ranker.score(named))
    assert f[1] > f[2] == f[3] > f[0]
    np.testing.assert_array_equal(ranker.score(Query.of(rows, ids=[20, 21, 22, 23]))[:4], f[2])
    without: Any = small.ranker("p2headrank", **GIVEN | {"noise_std": 0.0})
    without = without.learn(small.interaction(named, [0, 1], [1]), jax.random.key(0))
    assert len(set(np.asarray(without.score(named))[:4].tolist())) == 1


# When it changes


def test_a_round_that_tells_no_pair_changes_nothing() -> None:
    ranker = learned().with_room(1, small.PLACES)
    for clicked in ([], [0, 1, 2, 3]):
        seen = small.interaction(QUERY, [5, 6, 7, 8], clicked)
        assert small.same_bits(ranker.learn(seen, jax.random.key(9)), ranker)


def test_a_batch_takes_the_steps_of_its_lists_and_draws_its_heads_once() -> None:
    ranker = small.ranker("p2headrank", **GIVEN | {"n_steps": 2}).with_room(4, small.PLACES)
    seen = [small.interaction(QUERY, order, clicked) for order, clicked in LISTS[1:]]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *seen)
    keys = jax.random.split(jax.random.key(5), len(seen))
    after: Any = batches.learned(ranker, batch, keys, jnp.asarray(len(seen)))
    assert int(after.fit.optimiser[0].count) == 2 * 3  # one list has no click
    assert np.asarray(after.delta).any()
    again: Any = batches.learned(ranker, batch, keys.at[0].set(jax.random.key(6)), jnp.asarray(len(seen)))
    assert small.same_bits(again.delta, after.delta)  # by the key of the last list


def test_an_odd_number_of_heads_is_refused() -> None:
    for n in (0, 1, 3):
        with pytest.raises(BadInput, match=f"n_rankers is {n}; it must be an even number, 2 or more"):
            catalogue.make("p2headrank", 5, n_rankers=n)


@pytest.mark.as_shipped
@pytest.mark.parametrize("user", ["perfect", "navigational", "informational"])
def test_as_shipped_the_share_of_uncertain_pairs_falls_with_time(user: str) -> None:
    """The slope against log t over runs of fixed seeds, on queries that hardly come again."""
    fold, at = datasets.load("synthetic-stream:600"), (75, 150, 300, 600)
    settings = catalogue.published("p2headrank").settings
    shares = []
    for seed in (1, 2):
        plan = Plan("p2headrank", settings, clicks.user(user, fold.n_grades), fold, at[-1], seed, at)
        shares.append([checkpoint.uncertain for checkpoint in simulate(plan).checkpoints])
    slopes = [np.polyfit(np.log(at), np.array(share, float), 1)[0] for share in shares]
    assert max(slopes) < -0.02
