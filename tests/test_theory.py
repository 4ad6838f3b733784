from __future__ import annotations

import math

import pytest
from oracles import theory as plain

from perturank import theory

PROBLEM = theory.BoundProblem(
    d=5, v_max=12, shown=10, delta_min=0.1, P=1.5, Q=2.0, R=0.4, l2=0.7, n_rankers=3, noise_std=0.2
)


@pytest.mark.parametrize("beta", [0.3, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("delta", [0.5, 0.05])
def test_the_lemmas_smallest_n(beta: float, delta: float) -> None:
    assert theory.log_smallest_n(delta, beta) == pytest.approx(math.log(plain.smallest_n(delta, beta)), rel=1e-9)


def test_the_smallest_n_is_told_where_no_float_can_hold_it() -> None:
    assert theory.log_smallest_n(0.1, 1e3) == pytest.approx(1e6, rel=1e-4)


def test_the_two_forms_of_beta() -> None:
    proof = theory.beta(2.0, 0.1, 0.2)
    assert proof == pytest.approx(0.25 * 2.0 / (0.2 * 0.1))
    assert theory.beta(2.0, 0.1, 0.2, as_in="lemma") == pytest.approx(proof**2)


def test_the_smallest_slope_of_the_sigmoid() -> None:
    assert theory.c_mu(3.0) == pytest.approx(plain.slope(3.0))
    assert PROBLEM.c_mu == pytest.approx(plain.slope(PROBLEM.P * PROBLEM.Q))


def test_the_theorems_bound() -> None:
    p, k = PROBLEM, theory.K_MU
    c_mu = plain.slope(p.P * p.Q)
    C = plain.constant(p.n_rankers, k, p.noise_std, c_mu, 1.0, p.delta_min)
    t = plain.t_prime(k, c_mu, p.P, p.Q, p.R, p.l2, p.d, p.delta, p.delta_min)
    assert math.exp(p.log_c) == pytest.approx(C)
    assert math.exp(p.log_t_prime) == pytest.approx(t)
    for rounds in (1, 100, 10_000):
        expected = plain.regret(t, p.v_max, 1.0, p.d, C, p.shown, rounds, p.P, p.l2)
        assert math.exp(p.log_regret(rounds)) == pytest.approx(expected)


def test_the_lemmas_bound_on_uncertainty_is_a_probability() -> None:
    C = math.exp(PROBLEM.log_c)
    assert math.exp(PROBLEM.log_uncertain(0.5 / C)) == pytest.approx(0.5)
    assert PROBLEM.log_uncertain(1e9) == 0.0
