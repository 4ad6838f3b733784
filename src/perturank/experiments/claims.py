"""Ways to ask the runs about a claim: who is better than whom, by how much, and whether that is more than chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from perturank import significance
from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Claim, Verdict

LEVEL = 0.05
WORDS = {"ndcg": "offline", "cumulative_ndcg": "online", "seconds": "seconds", "regret": "regret"}


def better(says: str, arm: str, others: Sequence[str], measures: Sequence[str], users: Sequence[str] = ()) -> Claim:
    """Return the claim that an arm ends above each of the others, in each measure, under each user.

    It holds if every mean is higher and none of the pairs is clearly the other way round; it fails if
    any is clearly so (paired, 5 %, Holm); else the runs cannot tell.
    """
    return Claim(says, lambda evidence: _verdict(evidence, arm, others, measures, users, higher=True))


def similar(says: str, arm: str, others: Sequence[str], measures: Sequence[str], users: Sequence[str] = ()) -> Claim:
    """Return the claim that an arm ends at the level of others: no clear difference, and less than 5 % in the mean."""

    def check(evidence: Evidence) -> Verdict:
        found = _compared(evidence, arm, others, measures, users)
        if not found:
            return _no_runs()
        far = [each for each in found if abs(each.relative) > 0.05 and each.p < LEVEL]
        close = [each for each in found if abs(each.relative) <= 0.05]
        holds = False if far else True if len(close) == len(found) else None
        return Verdict(holds, "; ".join(each.said for each in (far or found)[:6]))

    return Claim(says, check)


def ratio(says: str, arm: str, other: str, measure: str, holds: Callable[[float], bool]) -> Claim:
    """Return a claim about how many times larger a measure of one arm is than of another."""

    def check(evidence: Evidence) -> Verdict:
        ratios = [
            evidence.mean(arm, user, measure) / evidence.mean(other, user, measure)
            for user in evidence.users
            if evidence.finals(arm, user, measure) and evidence.finals(other, user, measure)
        ]
        if not ratios:
            return _no_runs()
        mean = float(np.mean(ratios))
        return Verdict(holds(mean), f"{arm} takes {mean:.2f} times the {WORDS.get(measure, measure)} of {other}")

    return Claim(says, check)


class _Compared:
    """One arm against another, under one user, in one measure."""

    def __init__(self, evidence: Evidence, arm: str, other: str, user: str, measure: str) -> None:
        d = evidence.differences(arm, other, user, measure)
        base = evidence.mean(other, user, measure)
        self.difference = float(d.mean())
        self.relative = self.difference / abs(base) if base else math.inf
        self.p = significance.paired(d)
        digits = 3 if measure == "ndcg" else 1
        self.said = f"{user} {WORDS.get(measure, measure)}: {self.difference:+.{digits}f} against {other}"


def _compared(
    evidence: Evidence, arm: str, others: Sequence[str], measures: Sequence[str], users: Sequence[str]
) -> list[_Compared]:
    found = [
        _Compared(evidence, arm, other, user, measure)
        for user in evidence.users
        if not users or user in users
        for measure in measures
        for other in others
        if len(evidence.differences(arm, other, user, measure))
    ]
    for each, p in zip(found, significance.holm([each.p for each in found]), strict=True):
        each.p = p
    return found


def _verdict(
    evidence: Evidence, arm: str, others: Sequence[str], measures: Sequence[str], users: Sequence[str], higher: bool
) -> Verdict:
    found = _compared(evidence, arm, others, measures, users)
    if not found:
        return _no_runs()
    sign = 1 if higher else -1
    wrong = [each for each in found if sign * each.difference <= 0]
    clearly = [each for each in wrong if each.p < LEVEL]
    n = len(found)
    if clearly:
        return Verdict(False, f"clearly not in {len(clearly)} of {n}: " + "; ".join(e.said for e in clearly[:4]))
    if wrong:
        shown = "; ".join(each.said for each in wrong[:4])
        single = all(math.isnan(each.p) for each in found)
        holds = None if not single or len(wrong) < n else False
        return Verdict(holds, f"the other way round in {len(wrong)} of {n}: {shown}")
    sure = sum(each.p < LEVEL for each in found)
    least = min(found, key=lambda each: sign * each.relative)
    return Verdict(True, f"so in all {n} comparisons, {sure} of them clearly; closest: {least.said}")


def _no_runs() -> Verdict:
    return Verdict(None, "no runs to compare")
