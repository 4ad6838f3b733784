from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from results.made_up import job, outcome
from scipy import stats

from perturank.experiments.claims import better, ratio, similar
from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Verdict
from perturank.experiments.regret import exponent, fitted


def evidence(finals: Mapping[str, Sequence[float]], measure: str = "ndcg") -> Evidence:
    runs = {
        arm: {"perfect": [outcome(job(seed=seed), **{measure: value}) for seed, value in enumerate(values)]}
        for arm, values in finals.items()
    }
    return Evidence("made-up", runs)


def asked(finals: Mapping[str, Sequence[float]]) -> Verdict:
    return better("A is better than B and C", "A", ("B", "C"), ("ndcg",)).check(evidence(finals))


def test_better_in_every_mean_holds() -> None:
    verdict = asked({"A": [0.5, 0.6, 0.7], "B": [0.4, 0.5, 0.61], "C": [0.1, 0.2, 0.2]})
    assert verdict.holds is True
    assert "against B" in verdict.because


def test_clearly_worse_than_one_does_not() -> None:
    verdict = asked({"A": [0.50, 0.51, 0.52], "B": [0.60, 0.62, 0.62], "C": [0.1, 0.2, 0.2]})
    assert verdict.holds is False
    assert "-0.103 against B" in verdict.because


def test_worse_but_not_clearly_cannot_tell() -> None:
    assert asked({"A": [0.5, 0.9], "B": [0.8, 0.65], "C": [0.1, 0.2]}).holds is None


def test_without_runs_nothing_can_be_told() -> None:
    assert asked({"B": [1.0]}).holds is None


def test_alike_within_a_twentieth() -> None:
    claim = similar("A is like B", "A", ("B",), ("ndcg",))
    assert claim.check(evidence({"A": [0.5, 0.51], "B": [0.51, 0.5]})).holds is True
    assert claim.check(evidence({"A": [0.6, 0.61, 0.62], "B": [0.5, 0.51, 0.52]})).holds is False


def test_ratio_of_means() -> None:
    claim = ratio("A takes twice as long", "A", "B", "seconds", lambda r: r > 1.5)
    verdict = claim.check(evidence({"A": [2.0, 4.0], "B": [1.0, 2.0]}, "seconds"))
    assert verdict.holds is True
    assert "2.00 times" in verdict.because


def test_pairs_are_runs_of_the_same_fold_and_seed() -> None:
    found = evidence({"A": [1.0, 2.0, 3.0], "B": [0.5, 0.5]})
    assert found.differences("A", "B", "perfect", "ndcg") == pytest.approx([0.5, 1.5])


def test_the_fit_of_log_squared() -> None:
    t = np.array([10.0, 100.0, 1000.0, 5000.0])
    a, b, r2 = fitted(t, 3 + 2 * np.log(t) ** 2)
    assert (a, b, r2) == pytest.approx((3, 2, 1))
    noisy = np.array([1.0, 40.0, 30.0, 90.0])
    expected = stats.linregress(np.log(t) ** 2, noisy)
    assert fitted(t, noisy) == pytest.approx((expected.intercept, expected.slope, expected.rvalue**2))


def test_the_exponent_is_that_of_the_last_factor_of_ten() -> None:
    t = np.array([10.0, 100.0, 300.0, 1000.0])
    assert exponent(t, np.where(t < 100, 1.0, 3 * t**0.4)) == pytest.approx(0.4)
