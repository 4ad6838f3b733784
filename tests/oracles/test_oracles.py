"""The oracles checked against themselves: an oracle that errs would prove anything."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from oracles import certainty, clicks, covariance, metrics, network, objective, ordering, preferences, updates

RNG = np.random.default_rng(7)
X = RNG.normal(size=(9, 3))
Y = RNG.integers(0, 2, 9).astype(float)
NOISE = RNG.normal(size=9)
EDGE_NOISE = RNG.normal(size=3)
WEIGHT = RNG.uniform(0.5, 2, 9)


def total(law: dict[Any, float]) -> float:
    return sum(law.values())


def test_the_linear_gradient_is_that_of_the_linear_objective() -> None:
    given = (X, Y, 0.3, NOISE, WEIGHT, EDGE_NOISE)
    theta = RNG.normal(size=3)
    numeric = objective.central_differences(lambda t: objective.linear_objective(t, *given), theta)
    np.testing.assert_allclose(objective.linear_gradient(theta, *given), numeric, atol=1e-7)


def test_the_linear_fit_has_no_gradient_left() -> None:
    given = (X, Y, 0.3, NOISE, WEIGHT, EDGE_NOISE)
    assert np.abs(objective.linear_gradient(objective.linear_fit(*given), *given)).max() < 1e-10


def test_without_pairs_the_perturbation_alone_has_the_variance_of_the_theory() -> None:
    """Var U(x) = ν²‖x‖² in A⁻¹ = λI: θ = γ/√λ (eq:linloss)."""
    fitted = objective.linear_fit(np.zeros((1, 3)), [0.0], 4.0, regulariser_noise=EDGE_NOISE)
    np.testing.assert_allclose(fitted, EDGE_NOISE / 2)


def test_the_bounded_loss_begins_with_the_logistic_gradient() -> None:
    for y in (0.0, 1.0):
        slope = objective.central_differences(partial(objective.bounded, y=y), np.zeros(1))
        np.testing.assert_allclose(slope, objective.sigmoid(0.0) - y, atol=1e-8)


def test_a_perturbed_network_regulariser_is_the_plain_one_without_noise() -> None:
    theta = RNG.normal(size=4)
    assert objective.network_regulariser(theta, np.ones(4), 0.2, 5) == pytest.approx(0.5 * np.sum((theta - 1) ** 2))
    slope = objective.central_differences(
        lambda t: objective.network_regulariser(t, t * 0, 0.2, 5, np.ones(4)), 0 * theta
    )
    np.testing.assert_allclose(slope, np.sqrt(5 * 0.2), atol=1e-8)


@pytest.mark.parametrize("widths", [(4,), (5, 5), (3, 4, 2)])
def test_back_propagation_by_hand_equals_differences(widths: tuple[int, ...]) -> None:
    sizes = (3, *widths)
    layers = [RNG.normal(size=(out, into)) for into, out in zip(sizes, widths, strict=False)]
    layers.append(RNG.normal(size=widths[-1]))
    x = RNG.normal(size=3)
    numeric = objective.central_differences(
        lambda theta: network.score(network.unflat(theta, layers), x), network.flat(layers)
    )
    np.testing.assert_allclose(network.flat(network.gradient(layers, x)), numeric, atol=1e-7)


@pytest.mark.parametrize("n_after", [0, 1, 2, 3])
def test_pairs_join_clicked_with_examined_unclicked_places(n_after: int) -> None:
    for pattern in product((False, True), repeat=5):
        pairs = preferences.all_pairs(pattern, n_after)
        assert all(pattern[i] and not pattern[j] for i, j in pairs)
        assert set(preferences.symmetric_pairs(pattern, n_after)) <= set(pairs)
        depth = preferences.examined_depth(pattern, n_after)
        n_clicked = sum(pattern[:depth])
        assert len(pairs) == n_clicked * (depth - n_clicked)
        total_weight = len(pairs) * preferences.balanced_weight(pattern, n_after)
        assert total_weight == pytest.approx(min(n_clicked, depth - n_clicked))
        zipped = preferences.independent_pairs(pattern, n_after, range(n_clicked), range(depth - n_clicked))
        assert len(zipped) == min(n_clicked, depth - n_clicked)


def test_swap_symmetry_with_one_place_after_is_the_rule_in_closed_form() -> None:
    for pattern in product((False, True), repeat=6):
        last = max((place for place in range(6) if pattern[place]), default=-1)
        previous = max((place for place in range(last) if pattern[place]), default=-1)
        kept = [
            (b, a)
            for b, a in preferences.all_pairs(pattern, 1)
            if not (b == last and max(a, previous) + 1 < b and a < b)
        ]
        assert preferences.symmetric_pairs(pattern, 1) == kept


def test_trust_is_lowered_only_just_after_the_last_click() -> None:
    assert preferences.trust([True, False, True, False], (0, 3), 0.7) == 0.7
    assert preferences.trust([True, False, True, False], (0, 1), 0.7) == 1


def test_unanimity_is_transitive_and_one_ranker_is_certain_of_all() -> None:
    certain = certainty.unanimous(RNG.normal(size=(2, 6)))
    np.testing.assert_array_equal(certainty.closure(certain), certain)
    assert certainty.uncertain_share(certainty.unanimous(RNG.normal(size=(1, 6)))) == 0
    assert certainty.uncertain_share(certainty.unanimous(np.zeros((2, 6)))) == 1


def test_confidence_follows_the_scores_and_shrinks_with_alpha() -> None:
    x, a = RNG.normal(size=(5, 3)), certainty.covariance(X, 0.5)
    scores = x @ RNG.normal(size=3)
    sure, less = certainty.confident(scores, x, a, 0.0), certainty.confident(scores, x, a, 0.2)
    np.testing.assert_array_equal(sure, scores[:, None] > scores[None, :])
    assert np.all(less <= sure)
    np.testing.assert_allclose(a, X.T @ X + 0.5 * np.eye(3))
    np.testing.assert_allclose(certainty.covariance(X, 0.5, diagonal=True), np.diag(np.diag(a)))


@pytest.mark.parametrize("k", [2, 4])
def test_topological_lists_have_the_probability_of_their_free_sets(k: int) -> None:
    certain = certainty.unanimous(RNG.normal(size=(2, 4)))
    law = ordering.topological_lists(certain, k)
    assert total(law) == pytest.approx(1)
    for shown, p in law.items():
        assert p == pytest.approx(ordering.list_probability(certain, shown))
        assert not any(certain[b, a] for i, a in enumerate(shown) for b in shown[i + 1 :])


def test_blocks_keep_the_certain_order_and_hold_everything() -> None:
    scores = np.array([[3.0, 2.0, 1.0, 0.0, -1.0], [2.0, 3.0, 1.0, -1.0, 0.0]])
    certain = certainty.unanimous(scores)
    assert ordering.blocks(certain) == [[0, 1], [2], [3, 4]]
    law = ordering.block_lists(certain, 3)
    assert law == {(0, 1, 2): pytest.approx(0.5), (1, 0, 2): pytest.approx(0.5)}
    assert ordering.blocks(np.zeros((3, 3), bool)) == [[0, 1, 2]]


def test_laws_of_lists_sum_to_one() -> None:
    scores = [0.5, 0.5, -1.0, 2.0]
    for law in (ordering.plackett_luce_lists(scores, 3), ordering.epsilon_greedy_lists(scores, 3, 0.2)):
        assert total(law) == pytest.approx(1)
        assert len(law) == 4 * 3 * 2
    for shown, p in ordering.plackett_luce_lists(scores, 3).items():
        assert p == pytest.approx(updates.plackett_luce(scores, shown))
    assert ordering.epsilon_greedy_lists(scores, 3, 0.0) == {(3, 0, 1): 0.5, (3, 1, 0): 0.5}


def test_interleavings_sum_to_one_and_team_drafts_are_fair() -> None:
    rankings = [[0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]]
    for teams in (2, 3):
        drafts = ordering.team_drafts(rankings[:teams], 4)
        assert total(drafts) == pytest.approx(1)
        for _, assigned in drafts:
            counts = [assigned.count(ranker) for ranker in range(teams)]
            assert max(counts) - min(counts) <= 1
        assert total(ordering.probabilistic_interleavings(rankings[:teams], 3)) == pytest.approx(1)


def test_team_odds_are_the_conditional_law_of_the_teams() -> None:
    rankings, shown = [[0, 1, 2], [2, 0, 1]], (0, 2)
    law = {teams: p for (s, teams), p in ordering.probabilistic_interleavings(rankings, 2).items() if s == shown}
    first = sum(p for teams, p in law.items() if teams[0] == 0) / total(law)
    odds = ordering.team_odds(rankings, shown)
    assert odds[0, 0] == pytest.approx(first)
    np.testing.assert_allclose(odds.sum(1), 1)


def test_pdgd_is_unbiased_between_documents_of_equal_score() -> None:
    assert updates.pdgd_rho([1.0, 1.0, 0.0], [0, 1], (0, 1)) == pytest.approx(0.5)
    scores, jacobian = np.array([0.3, -0.2, 1.0]), RNG.normal(size=(3, 2))
    forth, back = (updates.pdgd_rho(scores, shown, pair) for shown, pair in (([0, 1], (0, 1)), ([1, 0], (1, 0))))
    assert forth + back == pytest.approx(1)
    assert updates.pdgd_gradient(scores, jacobian, [0, 1], []).tolist() == [0, 0]


def test_only_winners_move_the_ranker() -> None:
    theta, directions = np.zeros(2), np.eye(2)
    clicked, teams = [False, True, True], [0, 1, 2]
    np.testing.assert_allclose(updates.dbgd(theta, directions[0], [True, True], [0, 1], 0.1), theta)
    np.testing.assert_allclose(updates.dbgd(theta, directions[0], [False, True], [0, 1], 0.1), [0.1, 0])
    np.testing.assert_allclose(updates.mgd(theta, directions, clicked, teams, 0.1), [0.05, 0.05])


def test_a_pairwise_step_descends_the_cross_entropy() -> None:
    x, theta = RNG.normal(size=(4, 3)), RNG.normal(size=3)
    pairs = [(0, 1), (2, 1)]
    loss = lambda t: objective.cross_entropies([(x[i] - x[j]) @ t for i, j in pairs], 1.0)
    numeric = objective.central_differences(loss, theta)
    np.testing.assert_allclose(updates.pairwise_step(x @ theta, x, pairs, 0.5), -0.5 * numeric, atol=1e-8)


def test_alpha_without_data_is_its_constant_part_and_grows_with_data() -> None:
    nothing = covariance.alpha(np.zeros((1, 3)), 0.1, np.exp(-0.5), 2.0, 0.25)
    assert nothing == pytest.approx(2 * (2.0 + 3))
    assert covariance.alpha(X, 0.1, 0.1, 1.0, 0.25) > covariance.alpha(X[:2], 0.1, 0.1, 1.0, 0.25)
    assert covariance.log_det_ratio(X, 0.1) == pytest.approx(np.log(np.linalg.det(X.T @ X / 0.1 + np.eye(3))))


def test_the_smallest_ensemble_is_astronomical() -> None:
    direct = np.log(0.1) / np.log(1 - np.exp(-1) / (4 * np.sqrt(np.pi)))
    assert np.exp(covariance.log_smallest_ensemble(1.0, 0.1)) == pytest.approx(direct)
    assert covariance.log_smallest_ensemble(5.0, 0.05) > np.log(1e12)
    assert np.isfinite(covariance.log_smallest_ensemble(1e3, 0.05))


def test_click_patterns_sum_to_one() -> None:
    for stop in ("examined", "clicked"):
        assert total(clicks.dcm([0, 1, 2], [0.1, 0.5, 0.9], [0.2, 0.5, 0.8], stop)) == pytest.approx(1)
    assert total(clicks.pbm([0, 1], [0.1, 0.5], [1.0, 0.5])) == pytest.approx(1)


def test_a_reversed_list_has_every_pair_wrong() -> None:
    assert metrics.misordered([0, 1, 2, 3]) == 6
    assert metrics.misordered([3, 2, 1, 0]) == 0
    assert metrics.misordered_shown([0], [1, 0, 0], [0.0, 0.0, 0.0]) == 0
