"""The estimators beside plain loops, and on logs that hold every list as often as is to be expected."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from oracles import counterfactual as oracle

from perturank.counterfactual import ESTIMATORS, LoggedLists, Predictions, evaluate, logged_value, place_rewards
from perturank.errors import BadInput

V, K, N = 3, 2, 512 * 4
FIRST = {0: Fraction(1, 2), 1: Fraction(1, 4), 2: Fraction(1, 4)}
OTHER = {0: Fraction(1, 8), 1: Fraction(5, 8), 2: Fraction(1, 4)}


def shows(above: oracle.List, document: int) -> Fraction:
    """Return A's: at the top by FIRST, then any document that is left."""
    if above:
        return Fraction(0) if document in above else Fraction(1, 2)
    return FIRST[document]


def explores(above: oracle.List, document: int) -> Fraction:
    """Return B's: at the top by OTHER, then rather the first document that is left."""
    if not above:
        return OTHER[document]
    left = [each for each in range(V) if each not in above]
    return Fraction(0) if document in above else Fraction(3, 4) if document == left[0] else Fraction(1, 4)


def is_certain(above: oracle.List, document: int) -> Fraction:
    """Return B's: documents 2, 1, 0, in this order."""
    return Fraction(int(document == (2, 1, 0)[len(above)] and document not in above))


def reads_down(shown: oracle.List, place: int) -> Fraction:
    """Return what depends on the document and on the one above it."""
    return Fraction(1 + (shown[place] + (shown[0] if place else 0)) % 4, 4)


def reads_places(shown: oracle.List, place: int) -> Fraction:
    """Return what depends on the document and its place."""
    return Fraction(1 + (shown[place] + 2 * place) % 4, 4)


def looks_ahead(shown: oracle.List, place: int) -> Fraction:
    """Return what depends on the document below, too."""
    return Fraction(1 + (shown[place] + 2 * shown[-1]) % 4, 4)


def expected(target: oracle.Policy, clicks: oracle.Clicks) -> LoggedLists:
    log = oracle.expected_log(shows, clicks, V, K, N)
    assert len(log) == N

    def places(policy: oracle.Policy) -> list[list[float]]:
        return [[float(policy(shown[:r], shown[r])) for r in range(K)] for shown, _ in log]

    def marginals(policy: oracle.Policy) -> list[list[float]]:
        table = [[float(oracle.marginal(policy, V, K, d, r)) for d in range(V)] for r in range(K)]
        return [[table[r][shown[r]] for r in range(K)] for shown, _ in log]

    rng = np.random.default_rng(1)
    guess = rng.uniform(0, 2, (V, K))  # any function of document and place
    target_guess = [
        [sum(float(target(shown[:r], d)) * guess[d, r] for d in range(V)) for r in range(K)] for shown, _ in log
    ]
    shown_guess = [[guess[shown[r], r] for r in range(K)] for shown, _ in log]
    predictions = Predictions(np.array(shown_guess), np.array(target_guess), np.zeros((N, K)))
    return LoggedLists(
        place_rewards("clicks", [hits for _, hits in log]),
        places(shows),
        places(target),
        logged_marginal=marginals(shows),
        target_marginal=marginals(target),
        predictions=predictions,
    )


@pytest.mark.parametrize("target", [explores, is_certain])
@pytest.mark.parametrize(
    "clicks, unbiased",
    [
        (reads_places, {"ips", "snips", "rips", "snrips", "cdr", "iips", "sniips"}),
        (reads_down, {"ips", "snips", "rips", "snrips", "cdr"}),
        (looks_ahead, {"ips", "snips"}),
    ],
)
def test_estimators_find_the_truth_where_people_do_what_they_assume(
    target: oracle.Policy, clicks: oracle.Clicks, unbiased: set[str]
) -> None:
    truth = oracle.value(target, clicks, V, K)
    found = evaluate(expected(target, clicks))
    right = {name for name, each in found.items() if each.value == pytest.approx(truth, rel=1e-12)}
    assert right == unbiased
    assert all(found[name].support == pytest.approx(1) for name in unbiased)


def random_lists(n: int = 300, k: int = 3, seed: int = 0) -> LoggedLists:
    rng = np.random.default_rng(seed)
    chances = [rng.uniform(0.3, 1, (n, k)) for _ in range(4)]
    predictions = Predictions(*rng.uniform(0, 1, (3, n, k)))
    worth = rng.integers(0, 2, (n, k))
    return LoggedLists(
        place_rewards("dcg", worth),
        chances[0],
        chances[1],
        logged_marginal=chances[2],
        target_marginal=chances[3],
        predictions=predictions,
    )


def test_estimators_are_those_of_plain_loops() -> None:
    lists = random_lists()
    rewards, logged, target = lists.rewards, lists.logged, lists.target
    assert lists.logged_marginal is not None
    assert lists.target_marginal is not None
    assert lists.predictions is not None
    prefix = np.cumprod(target / logged, axis=1)
    items = lists.target_marginal / lists.logged_marginal
    wanted = {
        "ips": oracle.ips(rewards, logged, target),
        "snips": oracle.normalised(rewards, prefix[:, -1:] * np.ones(3)),
        "rips": oracle.rips(rewards, logged, target),
        "snrips": oracle.normalised(rewards, prefix),
        "iips": oracle.iips(rewards, lists.logged_marginal, lists.target_marginal),
        "sniips": oracle.normalised(rewards, items),
        "cdr": oracle.cascade_doubly_robust(rewards, logged, target, lists.predictions.shown, lists.predictions.target),
        "dm": float(lists.predictions.direct.sum(axis=1).mean()),
    }
    # The weights of made-up probabilities do not add up to 1, which would be refused: the reach says otherwise.
    whole = np.ones_like(rewards)
    given = LoggedLists(
        rewards,
        logged,
        target,
        reach=whole,
        marginal_reach=whole,
        logged_marginal=lists.logged_marginal,
        target_marginal=lists.target_marginal,
        predictions=lists.predictions,
    )
    found = evaluate(given)
    assert {name: each.value for name, each in found.items()} == pytest.approx(wanted, rel=1e-12)
    assert list(found) == list(ESTIMATORS)


def test_the_gain_is_the_difference_to_what_was_earned() -> None:
    lists = expected(explores, reads_down)
    for each in evaluate(lists).values():
        assert each.value is not None
        assert each.gain is not None
        assert each.gain.value == pytest.approx(each.value - logged_value(lists).value)
        assert each.gain.low < each.gain.value < each.gain.high


def test_a_ranker_that_shows_what_was_logged_earns_what_was_earned() -> None:
    lists = expected(shows, reads_down)
    found = evaluate(lists, ["rips"])["rips"]
    assert (found.value, found.low, found.high) == pytest.approx(logged_value(lists))
    assert found.gain is not None
    assert found.gain == pytest.approx((0, 0, 0))


@pytest.mark.parametrize(
    "change, says",
    [
        ({"logged": [[0.0]]}, "a logged place has probability 0"),
        ({"target": [[-1.0]]}, "target is not between 0 and 1"),
        ({"target": [[1.0, 1.0]]}, r"target has shape \(1, 2\)"),
        ({"rewards": []}, "the rewards have shape"),
    ],
)
def test_lists_that_cannot_be_are_refused(change: dict[str, list[list[float]]], says: str) -> None:
    given = {"rewards": [[1.0]], "logged": [[0.5]], "target": [[1.0]]} | change
    with pytest.raises(BadInput, match=says):
        LoggedLists(given["rewards"], given["logged"], given["target"])


def test_what_an_estimator_lacks_is_named() -> None:
    lists = LoggedLists([[1.0]] * 200, [[1.0]] * 200, [[1.0]] * 200)
    with pytest.raises(BadInput, match="marginal"):
        evaluate(lists, ["iips"])
    with pytest.raises(BadInput, match="predicted"):
        evaluate(lists, ["cdr"])
    with pytest.raises(BadInput, match="no estimator is named 'best'"):
        evaluate(lists, ["best"])
    assert set(evaluate(lists)) == {"ips", "snips", "rips", "snrips"}
