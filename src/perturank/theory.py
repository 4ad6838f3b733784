"""The paper's bounds, in logarithms: for realistic constants the numbers are astronomical.

Constants are named as in the paper: d features, P ≥ ‖x‖, Q ≥ ‖θ*‖, k_μ and c_μ the largest and the
smallest slope of σ, R the sub-Gaussian constant of the clicks' noise, λ_min(Σ) that of a pair's features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

K_MU = 0.25  # σ is Lipschitz with 1/4


def c_mu(largest_score: float) -> float:
    """Return inf σ'(x) for |x| up to this.

    >>> c_mu(0.0)
    0.25
    """
    low = math.exp(-abs(largest_score))
    return low / (1 + low) ** 2


def beta(alpha: float, noise_std: float, c: float, *, as_in: str = "proof") -> float:
    """Return β of lemma:uncertain: k α / (c ν) as in its proof, or the square, as in its statement."""
    ratio = K_MU * alpha / (c * noise_std)
    return ratio if as_in == "proof" else ratio**2


def log_smallest_n(delta: float, beta: float) -> float:
    """Return log N for the smallest N of lemma:uncertain, log δ / log(1 - exp(-β²)/(4√π β)).

    >>> round(log_smallest_n(0.1, 1.0), 3) == round(math.log(math.log(0.1) / math.log(1 - math.exp(-1) / 7.0898154)), 3)
    True
    """
    log_p = -(beta**2) - math.log(4 * math.sqrt(math.pi) * beta)  # of one ranker being optimistic enough
    # log(1 - p) = -p for p too small for a float.
    log_denominator = log_p if log_p < -30 else math.log(-math.log1p(-math.exp(log_p)))
    return math.log(-math.log(delta)) - log_denominator


@dataclass(frozen=True)
class BoundProblem:
    """The constants of a problem whose data and users obey prop:pairwise; `c` is the lemma's constant, at best 1."""

    d: int
    v_max: int
    shown: int  # o_max, the most documents of a list that are examined
    delta_min: float
    P: float
    Q: float
    R: float = 0.5
    l2: float = 1.0
    n_rankers: int = 2
    noise_std: float = 0.1
    delta: float = 0.1
    p_star: float = 1.0
    c: float = 1.0
    smallest_eigenvalue: float = 1.0  # λ_min(Σ)
    c_1: float = 1.0
    c_2: float = 1.0

    @property
    def c_mu(self) -> float:
        """The smallest slope of σ at a pair's score."""
        return c_mu(self.P * self.Q)

    @property
    def log_c(self) -> float:
        """Log C of theorem: C = 2 N k² ν² / (c_μ² c² Δ_min²)."""
        return math.log(2 * self.n_rankers) + 2 * (
            math.log(K_MU * self.noise_std) - math.log(self.c_mu * self.c * self.delta_min)
        )

    @property
    def log_t_prime(self) -> float:
        """Log t' of lemma:uncertain, the round from which it speaks."""
        log_delta = math.log(1 / self.delta)
        first = math.log(2 * K_MU * self.P / (self.c_mu * self.delta_min))
        first += math.log(math.sqrt(self.R**2 * log_delta) + math.sqrt(self.l2) * self.Q)
        inner = self.c_1 * math.sqrt(self.d) + self.c_2 * math.sqrt(log_delta)
        inner += self.P**2 * self.R * K_MU / (math.sqrt(self.l2) * self.c_mu * self.delta_min)
        second = 2 * (math.log(inner) - math.log(self.smallest_eigenvalue))
        return float(_log_sum(first, second))

    def log_uncertain(self, squared_width: float) -> float:
        """Return the log of lemma:uncertain's bound on P((i, j) uncertain), C ‖x_ij‖² in A⁻¹; at most 0."""
        return min(0.0, self.log_c + math.log(max(squared_width, 1e-300)))

    def log_regret(self, rounds: int) -> float:
        """Return log R_T of theorem: t' V_max + 2 d V_max C log(1 + o_max T P² / 2dλ) / p*."""
        growth = math.log1p(self.shown * rounds * self.P**2 / (2 * self.d * self.l2))
        late = math.log(2 * self.d * self.v_max / self.p_star) + self.log_c + math.log(growth)
        return float(_log_sum(self.log_t_prime + math.log(self.v_max), late))


def _log_sum(a: float, b: float) -> float:
    """Return log(e^a + e^b)."""
    high, low = max(a, b), min(a, b)
    return high + math.log1p(math.exp(low - high))
