"""Mis-ordered pairs against log²T, and the bound of the theorem (theorem)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Arm, Claim, Curve, Drawing, Experiment, Verdict
from perturank.experiments.known_truth import ARM, DATA, RANKER, USER, WHOLE_LIST, of_every_user, problem

FROM = 20  # rounds: before, nothing has been learned
LINEAR = 0.9  # exponent from which growth is called linear


def fitted(rounds: np.ndarray, regret: np.ndarray) -> tuple[float, float, float]:
    """Return a, b and R² of regret ≈ a + b log²t by least squares."""
    x = np.log(rounds) ** 2
    b, a = np.polyfit(x, regret, 1)
    rest = float(np.sum((regret - a - b * x) ** 2))
    return float(a), float(b), 1 - rest / float(np.sum((regret - regret.mean()) ** 2))


def mean_regret(evidence: Evidence, user: str) -> Curve:
    """Return the mean cumulative regret of P²LinRank from round FROM on."""
    runs = evidence.runs[ARM][user]
    late = runs[0].rounds >= FROM
    return runs[0].rounds[late], np.mean([run.measures["regret"][late] for run in runs], axis=0)


def fit(evidence: Evidence, user: str) -> Mapping[str, Curve]:
    """Return the fit of log²T."""
    if not evidence.runs.get(ARM, {}).get(user):
        return {}
    rounds, regret = mean_regret(evidence, user)
    if len(rounds) < 3:
        return {}
    a, b, _ = fitted(rounds, regret)
    return {"a + b log²T": (rounds, np.maximum(a + b * np.log(rounds) ** 2, 1.0))}


def fit_and_bound(evidence: Evidence, user: str) -> Mapping[str, Curve]:
    """Return the fit of log²T, and the theorem's bound."""
    if not evidence.runs.get(ARM, {}).get(user):
        return {}
    rounds, _ = mean_regret(evidence, user)
    bound = np.array([problem(evidence, user).log_regret(int(t)) for t in rounds])
    return {**fit(evidence, user), "theorem's bound": (rounds, np.exp(np.minimum(bound, 700.0)))}


def exponent(rounds: np.ndarray, values: np.ndarray) -> float:
    """Return e of values ≈ T^e over the last factor of ten in T."""
    late = (rounds >= rounds[-1] / 10) & (values > 0)
    return float(np.polyfit(np.log(rounds[late]), np.log(values[late]), 1)[0])


def _grows_like_log_squared(evidence: Evidence) -> Verdict:
    """Hold where regret ends no steeper than its own fit of log²T, by a tenth; fail where it is near to linear."""
    told, verdicts = [], set[bool | None]()
    for user in evidence.users:
        if evidence.runs.get(ARM, {}).get(user):
            rounds, regret = mean_regret(evidence, user)
            if len(rounds) >= 4:
                a, b, r2 = fitted(rounds, regret)
                measured, asked = exponent(rounds, regret), exponent(rounds, a + b * np.log(rounds) ** 2)
                verdicts.add(True if measured <= 1.1 * asked else False if measured > LINEAR else None)
                told.append(f"{user}: R² = {r2:.3f}, at the end like T^{measured:.2f}, the fit like T^{asked:.2f}")
    if not told:
        return Verdict(None, "too few evaluations to fit")
    holds = False if False in verdicts else None if None in verdicts else True
    return Verdict(holds, "; ".join(told))


def _below_the_bound(evidence: Evidence) -> Verdict:
    def told(user: str) -> tuple[bool, str]:
        rounds, regret = mean_regret(evidence, user)
        measured = float(np.log10(regret[-1]))
        bound = problem(evidence, user).log_regret(int(rounds[-1])) / math.log(10)
        return measured < bound, f"10^{measured:.1f} mis-ordered pairs, bound 10^{bound:.1f}"

    return of_every_user(evidence, told)


EXPERIMENT = Experiment(
    name="regret",
    title="Regret",
    about="Cumulative number of mis-ordered pairs on data with a known linear truth, under users who prefer i to j "
    "with probability σ(f*_i − f*_j), as Proposition 1 has it; a fit of a + b log²T, and the theorem's bound, with "
    "every constant that the paper leaves open at its most favourable. Pairs are of different grades. Not plotted in "
    "the paper.",
    arms=(
        Arm(ARM, RANKER, {"n_rankers": 2, **WHOLE_LIST}, is_ours=True),
        Arm("PairRank", "pairrank", WHOLE_LIST),
        Arm("PDGD", "pdgd-linear", WHOLE_LIST),
        Arm("random", "random"),
    ),
    drawings=(
        Drawing("theorem", "regret", "Regret and a fit of log²T", "mis-ordered pairs so far", False, True, fit),
        Drawing("theorem", "regret", "Regret and its bound", "mis-ordered pairs so far", True, True, fit_and_bound),
    ),
    claims=(
        Claim("Regret grows no faster than log²T.", _grows_like_log_squared),
        Claim("Regret stays below the theorem's bound.", _below_the_bound),
    ),
    users=(USER,),
    data=(DATA,),
)
