"""Verdicts: what the paper claims, put to the runs of each data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from perturank.experiments.experiment import Finding, Verdict

WORDS = {True: "yes", False: "no", None: "cannot tell"}
SIGNS = {True: "✓", False: "✗", None: "?"}


@dataclass(frozen=True)
class JudgedClaim:
    """A statement of the paper with the verdict of one data set; where no run is finished, of none."""

    says: str
    data: str
    verdict: Verdict


def judged_claims(finding: Finding) -> list[JudgedClaim]:
    """Return all claims of an experiment, each for every data set with runs."""
    asked = [evidence for evidence in finding.evidence if evidence.users]
    nothing = Verdict(None, "no run has finished")
    return [
        row
        for claim in finding.experiment.claims
        for row in [JudgedClaim(claim.says, each.data, claim.check(each)) for each in asked]
        or [JudgedClaim(claim.says, "", nothing)]
    ]


def verdict_counts(rows: Iterable[JudgedClaim]) -> dict[bool | None, int]:
    """Return how many claims are borne out (True), are not (False), and are undecided (None)."""
    found = Counter(row.verdict.holds for row in rows)
    return {holds: found[holds] for holds in WORDS}
