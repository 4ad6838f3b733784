"""The plain rankers: they learn, and take the compiled rankers' steps where nothing is random."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest
from helpers import small

from oracles import certainty, metrics, network, ordering, preferences, updates
from oracles.rankers import FAMILIES, gradients, lists, loop, omega, scorers, started
from oracles.rankers.certain import outside_widths, unanimous
from perturank import catalogue
from perturank.core import Query

PERFECT = np.array([0.0, 0.5, 1.0]), np.zeros(3)
LISTS = [([3, 0, 7, 5], [False, True, False, True]), ([1, 3, 8, 2], [True, False, False, False])]
LEARNING = set(FAMILIES) - {"random"}
ALIKE: dict[str, Any] = {"pairs": "all", "noise_std": 0.0}


def plain(name: str, **changes: Any) -> Any:
    rng = np.random.default_rng(0)
    return started(name, small.N_FEATURES, small.settings(name, **changes).as_dict(), rng)


def taught(name: str, **changes: Any) -> tuple[Any, Any]:
    """Return a compiled and a plain ranker that began with the same weights and learned from the same two lists."""
    compiled, other = small.ranker(name, **changes), plain(name, **changes)
    for mine, theirs in zip(networks(other), compiled_layers(compiled), strict=False):
        mine.theta = network.flat(theirs)
    for trained in getattr(other, "networks", [getattr(other, "network", None)]):
        if trained is not None:
            trained.start = trained.f.theta.copy()
    x = small.rows(9)
    query = Query.of(x)
    for n, (shown, clicks) in enumerate(LISTS):
        clicked = [place for place, click in enumerate(clicks) if click]
        memo = pdgd_memo(compiled, query, shown) if name.startswith("pdgd") else None
        interaction = small.interaction(query, shown, clicked, memo)
        compiled = compiled.learn(interaction, jax.random.key(n))
        other.learn(x.astype(float), shown, clicks)
    return compiled, other


def networks(ranker: Any) -> list[scorers.Network]:
    trained = getattr(ranker, "networks", None) or [getattr(ranker, "network", None) or ranker]
    found = [getattr(each, "f", None) for each in trained]
    return [f for f in found if isinstance(f, scorers.Network)]


def compiled_layers(ranker: Any) -> list[list[np.ndarray]]:
    theta = ranker.fit.theta if hasattr(ranker, "fit") else ranker.theta
    if not hasattr(theta, "hidden"):
        return []
    layers = [np.asarray(w, float) for w in (*theta.hidden, theta.output)]
    return [[w[n] for w in layers] for n in range(len(layers[-1]))] if layers[-1].ndim == 2 else [layers]


def pdgd_memo(ranker: Any, query: Query, shown: list[int]) -> Any:
    scores = np.asarray(ranker.score(query))[:9]
    left = [np.log(np.sum(np.exp(np.delete(scores, shown[:place])))) for place in range(len(shown))]
    return jax.numpy.asarray(scores[shown]), jax.numpy.asarray(left)


def scores_of(ranker: Any, x: np.ndarray) -> np.ndarray:
    if hasattr(ranker, "networks"):
        return np.mean([net.scores(x) for net in ranker.networks], axis=0)
    if hasattr(ranker, "network"):
        return np.asarray(ranker.network.scores(x))
    if hasattr(ranker, "f"):
        return np.asarray(ranker.f.scores(x))
    return np.asarray(x @ np.mean(getattr(ranker, "thetas", None) or [ranker.theta], axis=0))


def test_every_plain_ranker_is_that_of_a_published_one() -> None:
    assert {name.partition("-")[0] for name in catalogue.rankers()} >= set(FAMILIES)
    assert started("nobody", 3, {}, np.random.default_rng(0)) is None


@pytest.mark.parametrize("name", [name for name in catalogue.rankers() if name.partition("-")[0] in LEARNING])
def test_a_plain_ranker_learns_an_easy_problem(name: str) -> None:
    data, rng = small.fold().train, np.random.default_rng(1)
    is_duel = name.startswith(("dbgd", "mgd"))
    ranker, n_rounds = plain(name, **({"learning_rate": 0.1} if is_duel else {})), 1500 if is_duel else 120
    for t in range(n_rounds):
        x, grades = data.query(t % data.n_queries)
        assert len(set(loop.one_round(ranker, x.astype(float), grades, PERFECT, rng, 4))) == min(4, len(x))
    test = [small.fold().test.query(q) for q in range(small.fold().test.n_queries)]
    reached = [metrics.ndcg(grades[np.argsort(-scores_of(ranker, x))].tolist(), grades.tolist()) for x, grades in test]
    chance = [metrics.ndcg(rng.permutation(grades).tolist(), grades.tolist()) for _, grades in test for _ in range(20)]
    assert np.mean(reached) > np.mean(chance) + 0.1


@pytest.mark.parametrize("name", ["pdgd-linear", "pdgd-neural", "epsilon-greedy-linear", "epsilon-greedy-neural"])
def test_a_gradient_step_is_that_of_the_compiled_ranker(name: str) -> None:
    compiled, other = taught(name)
    expected = np.asarray(compiled.score(small.query()))[:9]
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(scores_of(other, small.rows(9)), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["p2linrank", "pairrank"])
def test_the_linear_fit_is_that_of_the_compiled_ranker(name: str) -> None:
    changes = ALIKE | {"inclusion": "paper", "l2": 1.0}
    known = {k: v for k, v in changes.items() if k in catalogue.published(name).settings.as_dict()}
    compiled, other = taught(name, **known | ({"loss": "cross-entropy"} if name == "p2linrank" else {}))
    expected = np.asarray(compiled.score(small.query()))[:9]
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(scores_of(other, small.rows(9)), expected, atol=0.02 * np.abs(expected).max())
    if name == "pairrank":
        np.testing.assert_array_equal(other.certain(small.rows(9)), np.asarray(compiled.certain(small.query()))[:9, :9])


@pytest.mark.parametrize("name", ["p2neurrank", "p2neurrank-paper", "olranknet", "olranknet-diag"])
def test_the_steps_of_a_network_are_those_of_the_compiled_ranker(name: str) -> None:
    known = {k: v for k, v in ALIKE.items() if k in catalogue.published(name).settings.as_dict()}
    compiled, other = taught(name, budget=None, **known)
    expected = np.asarray(compiled.score(small.query()))[:9]
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(scores_of(other, small.rows(9)), expected, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "mixed"},
        {"loss": "symmetric"},
        {"loss": "cross-entropy"},
        {"widths": (8, 8), "l2_hidden": 0.5},
        {"shortcut": False, "n_steps": 1},
        {"new_weight": 0.05},
        {"bias": True, "learning_rate": 0.005},  # Adam makes much of gradients that cancel but for rounding
        {"bias": True, "shortcut": False, "widths": (8, 8)},
        {"l2_document": 0.5},
    ],
    ids=str,
)
def test_the_steps_of_a_network_with_heads_are_those_of_the_compiled_ranker(changes: dict[str, Any]) -> None:
    """The network, and the means of z zᵀ and σ'(f) z zᵀ from which its heads are drawn; all pairs fit the budget."""
    given = {"l2": 0.5, "l2_output": 2.0, "l2_hidden": 5.0, "shortcut": True, "budget": 64} | changes
    compiled, other = taught("p2headrank", **ALIKE | given)
    expected = np.asarray(compiled.score(small.query()))[:9]
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(scores_of(other, small.rows(9)), expected, atol=1e-3 * np.abs(expected).max())
    for mine, theirs in ((other.gram, compiled.fit.gram), (other.bend, compiled.fit.bend)):
        np.testing.assert_allclose(mine, theirs, atol=1e-3 * np.abs(mine).max())
    assert other.delta.shape == compiled.delta.shape
    assert not other.delta.any()
    assert not np.asarray(compiled.delta).any()


def test_the_heads_of_a_plain_network_spread_as_those_of_the_compiled_one() -> None:
    given: dict[str, Any] = {"n_rankers": 8000, "noise_std": 0.3, "early_noise": 3.0, "early_weight": 2.0}
    compiled, other = taught("p2headrank", **ALIKE | {"l2": 0.5, "l2_output": 2.0, "budget": 64} | given)
    expected = np.asarray(compiled.scores(small.query()))[:9].std(axis=1)
    spread = (other.network.inputs(small.rows(9)) @ other.delta).std(axis=1)
    np.testing.assert_allclose(spread, expected, rtol=5 / np.sqrt(4000))  # five standard errors of either, and more


def test_reversal_is_that_of_the_exchanged_list() -> None:
    scores, shown = np.random.default_rng(3).normal(size=6), [4, 0, 2, 5]
    for i, j in ((0, 2), (3, 1)):
        assert gradients.reversal(scores, shown, i, j) == pytest.approx(updates.pdgd_rho(scores, shown, (i, j)))


def test_certain_orders_are_those_taken_pair_by_pair() -> None:
    rng = np.random.default_rng(4)
    scores, x = rng.normal(size=(2, 6)), rng.normal(size=(6, 3))
    np.testing.assert_array_equal(unanimous(scores), certainty.unanimous(scores))
    a = certainty.covariance(rng.normal(size=(5, 3)), 0.5)
    mine = outside_widths(scores[0], x @ np.linalg.inv(a) @ x.T, 0.1)
    np.testing.assert_array_equal(mine, certainty.confident(scores[0], x, a, 0.1))


def test_a_network_scores_and_slopes_as_unit_by_unit() -> None:
    net = scorers.Network.drawn(3, (4, 5), np.random.default_rng(5), "centred")
    x, r = np.random.default_rng(6).normal(size=(7, 3)), np.arange(7.0)
    *hidden, output = net.layers(net.theta)
    unit_by_unit = [*(w.T for w in hidden), output]
    np.testing.assert_allclose(net.scores(x), [network.score(unit_by_unit, row) for row in x])
    slopes = [network.gradient(unit_by_unit, row) for row in x]
    expected = [network.flat([*(w.T for w in parts[:-1]), parts[-1]]) for parts in slopes]
    np.testing.assert_allclose(net.jacobian(x), expected)
    np.testing.assert_allclose(net.gradient(x, r), r @ np.array(expected))


def test_drawn_lists_have_the_enumerated_laws() -> None:
    rng, scores = np.random.default_rng(7), np.array([0.5, 0.0, -1.0, 1.0])
    certain = certainty.unanimous(rng.normal(size=(2, 4)))
    cases: list[tuple[Any, Any]] = [
        (lambda: tuple(lists.topological(certain, 2, rng)), ordering.topological_lists(certain, 2)),
        (lambda: tuple(lists.topological(certain, 2, rng, 0.3)), ordering.topological_lists(certain, 2, 0.3)),
        (lambda: tuple(lists.plackett_luce(scores, 2, rng)), ordering.plackett_luce_lists(scores.tolist(), 2)),
        (
            lambda: tuple(lists.epsilon_greedy(scores, 2, 0.3, rng)),
            ordering.epsilon_greedy_lists(scores.tolist(), 2, 0.3),
        ),
    ]
    rankings = [[0, 1, 2, 3], [3, 1, 0, 2]]
    draft = lambda: tuple(map(tuple, lists.team_draft(rankings, 3, rng)))
    cases.append((draft, ordering.team_drafts(rankings, 3)))
    n = 3000
    for draw, law in cases:
        counts = Counter(draw() for _ in range(n))
        assert set(counts) <= {shown for shown, p in law.items() if p > 0}
        for shown, p in law.items():
            assert abs(counts[shown] / n - p) < 5 * np.sqrt(p * (1 - p) / n) + 1e-9


def test_pairs_are_those_of_the_settings() -> None:
    rng, clicks = np.random.default_rng(8), [False, True, False, True, False, False]
    everything = {"examined_beyond": 1, "pairs": "all", "beyond_weight": 0.7}
    pairs = omega.told(clicks, everything, rng)
    assert [(i, j) for i, j, _ in pairs] == preferences.all_pairs(clicks, 1)
    assert {w for _, j, w in pairs if j < 3} == {1 / 3}
    assert [w for _, j, w in pairs if j == 4] == [pytest.approx(0.7 / 3)] * 2
    symmetric = omega.told(clicks, everything | {"inclusion": "symmetric"}, rng)
    assert [(i, j) for i, j, _ in symmetric] == preferences.symmetric_pairs(clicks, 1)
    apart = omega.told(clicks, everything | {"pairs": "independent", "beyond_weight": 1.0}, rng)
    assert len(apart) == 2
    assert len({place for i, j, _ in apart for place in (i, j)}) == 4
    assert omega.told([False] * 4, everything, rng) == []
