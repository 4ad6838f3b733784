"""The lemma and the theorem as they stand in the paper, in plain floating point."""

from __future__ import annotations

import math


def smallest_n(delta: float, beta: float) -> float:
    return math.log(delta) / math.log(1 - math.exp(-(beta**2)) / (4 * math.sqrt(math.pi) * beta))


def slope(x: float) -> float:
    sigma = 1 / (1 + math.exp(-x))
    return sigma * (1 - sigma)


def constant(n: int, k: float, nu: float, c_mu: float, c: float, delta_min: float) -> float:
    return 2 * n * k**2 * nu**2 / (c_mu**2 * c**2 * delta_min**2)


def t_prime(
    k: float, c_mu: float, P: float, Q: float, R: float, l2: float, d: int, delta: float, delta_min: float
) -> float:
    first = 2 * k * P / (c_mu * delta_min) * (math.sqrt(R**2 * math.log(1 / delta)) + math.sqrt(l2) * Q)
    second = math.sqrt(d) + math.sqrt(math.log(1 / delta)) + P**2 * R * k / (math.sqrt(l2) * c_mu * delta_min)
    return first + second**2


def regret(
    t_prime: float, v_max: int, p_star: float, d: int, C: float, o_max: int, T: int, P: float, l2: float
) -> float:
    return t_prime * v_max + 2 * d * v_max * C * math.log(1 + o_max * T * P**2 / (2 * d * l2)) / p_star
