"""The share of uncertain pairs, measured and bounded (lemma:uncertain)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Arm, Claim, Curve, Drawing, Experiment, Verdict
from perturank.experiments.known_truth import ARM, DATA, RANKER, USER, WHOLE_LIST, of_every_user, problem


def bound(evidence: Evidence, user: str) -> Curve:
    """Return the lemma's bound at the mean width of the pairs, not cut at 1."""
    runs, constants = evidence.runs[ARM][user], problem(evidence, user)
    width = np.mean([run.measures["width"] for run in runs], axis=0)
    return runs[0].rounds, np.exp(constants.log_c) * width


def references(evidence: Evidence, user: str) -> Mapping[str, Curve]:
    """Return the lemma's bound."""
    return {"lemma's bound": bound(evidence, user)} if evidence.runs.get(ARM, {}).get(user) else {}


def _share(evidence: Evidence, user: str) -> np.ndarray:
    """Return the mean share of uncertain pairs at each evaluation."""
    return np.asarray(np.mean([run.measures["uncertain"] for run in evidence.runs[ARM][user]], axis=0))


def _shrinks(evidence: Evidence) -> Verdict:
    def told(user: str) -> tuple[bool, str]:
        share, first = _share(evidence, user), evidence.runs[ARM][user][0].rounds[0]
        return bool(share[-1] < share[0]), f"{share[0]:.3f} at round {first}, {share[-1]:.3f} at the end"

    return of_every_user(evidence, told)


def _below(evidence: Evidence) -> Verdict:
    def told(user: str) -> tuple[bool, str]:
        share, (_, most) = _share(evidence, user), bound(evidence, user)
        said = f"measured {share[-1]:.3f}, bound 10^{np.log10(most[-1]):.1f} at the end"
        return bool(np.all(share <= most)), said

    return of_every_user(evidence, told)


EXPERIMENT = Experiment(
    name="uncertain-orders",
    title="Uncertain orders",
    about="Share of pairs on which the rankers disagree, on data with a known linear truth, under users who "
    "prefer i to j with probability σ(f*_i − f*_j), and the lemma's bound on its probability at the mean width of a "
    "pair (a probability: beyond 1 it says nothing).",
    arms=(
        Arm(ARM, RANKER, {"n_rankers": 2, **WHOLE_LIST}, is_ours=True),
        Arm("P²LinRank N=5", RANKER, {"n_rankers": 5, **WHOLE_LIST}, is_ours=True),
    ),
    drawings=(
        Drawing("lemma:uncertain", "uncertain", "Uncertain pairs", "share of all pairs", True, True, references),
        Drawing("lemma:uncertain", "uncertain", "Uncertain pairs, measured", "share of all pairs", True, False),
    ),
    claims=(
        Claim("The share of uncertain orders shrinks as clicks come in.", _shrinks),
        Claim("It stays below the lemma's bound.", _below),
    ),
    users=(USER,),
    data=(DATA,),
)
