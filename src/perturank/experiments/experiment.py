"""The vocabulary of experiments: arms that run, what is drawn of them, and what the paper claims of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from perturank.experiments.evidence import Evidence

Curve = tuple[np.ndarray, np.ndarray]  # rounds and values
Grid = Mapping[str, Sequence[Any]]  # hyper-parameter -> values; all combinations are tried


@dataclass(frozen=True)
class Arm:
    """One curve: a ranker with settings, some of them searched on the validation queries.

    `wide` replaces axes of the paper's grid by longer ones: tuned on those too, the arm gets a second curve.
    """

    label: str
    ranker: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
    wide: Grid = field(default_factory=dict)
    is_ours: bool = False


@dataclass(frozen=True)
class Verdict:
    """Whether the runs bear a claim out (None: they cannot tell), and the numbers that say so."""

    holds: bool | None
    because: str


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and how the runs of one data set are asked about it."""

    says: str
    check: Callable[[Evidence], Verdict]


@dataclass(frozen=True)
class Drawing:
    """One figure of the paper: a measure against rounds, a panel per user (and data set).

    `against` names a measure to stand in for rounds: one that falls as rounds go on, so its axis runs from right to
    left. `control` names a measure that is drawn dotted beside each arm's curve.
    """

    label: str  # in the paper, such as fig:offline_linear; or our own
    measure: str  # a column of the results: ndcg, cumulative_ndcg, regret, uncertain, seconds
    title: str
    y_label: str
    log_x: bool = False
    log_y: bool = False
    references: Callable[[Evidence, str], Mapping[str, Curve]] | None = None  # of a user: a fit, a bound; dashed
    against: str = ""
    x_label: str = "round"
    control: str = ""


@dataclass(frozen=True)
class Experiment:
    """What runs and what is drawn; `users` and `data` of its own replace those of the protocol.

    With `keeps_orders` the runs keep their certain orders, and `reversals` adds what they tell to the evidence.
    """

    name: str
    title: str
    about: str
    arms: tuple[Arm, ...]
    drawings: tuple[Drawing, ...]
    claims: tuple[Claim, ...] = ()
    users: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    keeps_orders: bool = False
    stars: str = ""  # the arm that others are tested against; the first one that is ours where none is named

    def with_rankers(self, rankers: Sequence[str]) -> Experiment:
        """Return the experiment with these rankers as its arms; the paper's claims are of its own arms, and go.

        Each has the settings that it is published with. The others are tested against the first.
        """
        arms = tuple(Arm(name, name, is_ours=name == rankers[0]) for name in dict.fromkeys(rankers))
        about = f"{', '.join(arm.label for arm in arms)}: each with the settings that it is published with."
        return replace(self, about=about, arms=arms, claims=(), stars="")


@dataclass(frozen=True)
class Choice:
    """What tuning chose for an arm on one fold, among how many settings, by which validation NDCG."""

    data: str
    arm: str
    user: str
    fold: int
    chosen: Mapping[str, Any]
    among: int
    ndcg: float


@dataclass(frozen=True)
class Finding:
    """What is known of an experiment: the finished runs by data set, what was chosen, how many runs are missing."""

    experiment: Experiment
    evidence: tuple[Evidence, ...]
    choices: tuple[Choice, ...]
    n_missing: int
