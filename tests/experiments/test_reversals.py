from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.made_up import outcome
from oracles import reversals as oracle

from perturank.experiments.evidence import Evidence
from perturank.experiments.reversals import (
    CONTROL_REVERSED,
    CONTROL_WRONG,
    REVERSED,
    UNCERTAIN,
    largest_differences,
    measures,
    with_reversals,
)
from perturank.orders import NO_DOCUMENT, Orders
from perturank.results.outcome import RunOutcome


def drawn(seed: int) -> Orders:
    """Return the orders of an ensemble of two on three queries of eight documents."""
    rng = np.random.default_rng(seed)
    both = rng.normal(size=(2, 3, 8))
    certain = np.all(both[:, :, :, None] > both[:, :, None, :], axis=0)
    return Orders.of(np.random.default_rng(0).integers(0, 3, (3, 8)), both.mean(axis=0), certain)


def pairs(orders: np.ndarray) -> set[oracle.Pair]:
    return {(int(q), int(i), int(j)) for q, i, j in np.argwhere(orders)}


@pytest.mark.parametrize("seed", range(4))
def test_the_control_is_the_pairs_of_the_largest_score_difference(seed: int) -> None:
    orders = drawn(seed)
    assert orders.certain is not None
    n = int(orders.certain.sum())
    found = largest_differences(orders.scores, orders.grades != NO_DOCUMENT, n)
    assert pairs(found) == oracle.largest(orders.scores.tolist(), n)


def test_the_control_leaves_padding_and_ties_out() -> None:
    scores, real = np.array([[3.0, 1.0, 1.0, 9.0]]), np.array([[True, True, True, False]])
    assert pairs(largest_differences(scores, real, 100)) == {(0, 0, 1), (0, 0, 2)}


@pytest.mark.parametrize("seed", range(4))
def test_shares_agree_with_the_oracle(seed: int) -> None:
    orders, later = drawn(seed), np.random.default_rng(100 + seed).normal(size=(3, 8))
    assert orders.certain is not None
    certain = pairs(orders.certain)
    found = measures(orders, later)
    assert found[UNCERTAIN] == pytest.approx(1 - len(certain) / (3 * 8 * 7 / 2))
    assert found[REVERSED] == pytest.approx(oracle.reversed_share(certain, later.tolist()))
    control = oracle.largest(orders.scores.tolist(), len(certain))
    assert found[CONTROL_REVERSED] == pytest.approx(oracle.reversed_share(control, later.tolist()))


def run(seed: int, fold: int = 1, orders: tuple[Orders, ...] = ()) -> RunOutcome:
    return replace(outcome({}, [10, 100], seed=seed, fold=fold), orders=orders)


def test_a_run_is_compared_with_the_final_scores_of_the_other_seeds_of_its_fold() -> None:
    kept = {
        (fold, seed): (drawn(10 * fold + seed), drawn(50 + 10 * fold + seed)) for fold in (1, 2) for seed in range(3)
    }
    runs = [run(seed, fold, orders) for (fold, seed), orders in kept.items()]
    found = with_reversals(Evidence("synthetic", {"ours": {"perfect": runs}})).runs["ours"]["perfect"]
    for each in found:
        fold, seed = each.job.fold, each.job.seed
        later = np.mean([kept[fold, other][-1].scores for other in range(3) if other != seed], axis=0)
        for i, orders in enumerate(kept[fold, seed]):
            assert orders.certain is not None
            expected = oracle.reversed_share(pairs(orders.certain), later.tolist())
            assert each.measures[REVERSED][i] == pytest.approx(expected)


def test_what_cannot_be_known_is_not_a_number() -> None:
    no_orders = Orders(drawn(0).grades, drawn(0).scores)
    evidence = Evidence(
        "synthetic",
        {
            "alone": {"perfect": [run(1, orders=(drawn(0), drawn(1)))]},
            "without certain orders": {"perfect": [run(seed, orders=(no_orders, no_orders)) for seed in range(2)]},
            "not kept": {"perfect": [run(1)]},
        },
    )
    found = {arm: by_user["perfect"][0].measures for arm, by_user in with_reversals(evidence).runs.items()}
    assert np.isnan(found["alone"][REVERSED]).all()
    assert np.isfinite(found["alone"][UNCERTAIN]).all()
    assert np.isfinite(found["alone"][CONTROL_WRONG]).all()
    for arm in ("without certain orders", "not kept"):
        assert all(np.isnan(found[arm][name]).all() for name in (UNCERTAIN, REVERSED, CONTROL_REVERSED, CONTROL_WRONG))
