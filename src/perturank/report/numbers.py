"""Final numbers: every arm after its last round, the best of them, and how each compares with the star."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perturank import significance
from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Experiment, Finding
from perturank.experiments.trust import Trust
from perturank.report.names import sign
from perturank.significance import Mean

LEVEL = 0.05
TRUST_COLUMNS = ("worst", "10 %", "mean", "collapsed", "uncertain", "wrong")
Place = tuple[str, str, str]  # arm, user, measure


@dataclass(frozen=True)
class Cell:
    """A final number; `p` is of the paired test against the star, corrected, NaN where there is none.

    `advantage` is the mean difference to the star, positive where the arm is better.
    """

    mean: Mean
    is_best: bool = False
    p: float = math.nan
    advantage: float = math.nan

    @property
    def mark(self) -> str:
        """▲ or ▼ where the arm is significantly better or worse than the star."""
        if not self.p < LEVEL:
            return ""
        return "▲" if self.advantage > 0 else "▼"


@dataclass(frozen=True)
class Finals:
    """The table of one data set; `measures` maps the columns of results to what people call them."""

    data: str
    star: str
    arms: tuple[str, ...]
    users: tuple[str, ...]
    measures: Mapping[str, str]
    cells: Mapping[Place, Cell]
    milliseconds: Mapping[str, float]  # by arm: per round, the median over all runs

    def decimals(self, user: str, measure: str) -> int:
        """Return how many decimals show two digits of a typical interval in this column, at most four."""
        found = [self.cells[arm, user, measure].mean for arm in self.arms if (arm, user, measure) in self.cells]
        halves = [m.half_width for m in found if m.half_width > 0]  # NaN is not
        if not halves:
            return 4 if all(abs(m.value) <= 1 for m in found) else 1
        return min(4, max(0, 1 - math.floor(math.log10(float(np.median(halves))))))


def star(experiment: Experiment) -> str:
    """Return the arm that others are tested against: the one named, or the first that is ours; else none."""
    return experiment.stars or next((arm.label for arm in experiment.arms if arm.is_ours), "")


def finals(finding: Finding) -> list[Finals]:
    """Return a table for each data set that has runs."""
    return [_of(finding.experiment, evidence) for evidence in finding.evidence if evidence.users]


def rounded(value: float, decimals: int) -> str:
    """Return a number for people.

    >>> rounded(0.41236, 3), rounded(12345.6, 0), rounded(3.2e15, 0)
    ('0.412', '12,346', '3.2e+15')
    """
    return f"{value:.3g}" if abs(value) >= 1e7 else f"{value:,.{decimals}f}"


def three_digits(value: float) -> str:
    """Return a number with three digits that count; – where it is unknown.

    >>> three_digits(1.7), three_digits(0.0123), three_digits(1234.5)
    ('1.70', '0.0123', '1,234')
    """
    if not math.isfinite(value):
        return "–"
    return rounded(value, max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0)


def trust_cells(trust: Trust) -> tuple[str, ...]:
    """Return the cells of a row of TRUST_COLUMNS; – where a number is unknown."""
    ndcgs = (f"{value:.3f}" for value in (trust.worst, trust.tenth, trust.mean))
    shares = (trust.collapses, trust.uncertain, trust.certain_wrong)
    return (*ndcgs, *("–" if math.isnan(value) else f"{100 * value:.1f} %" for value in shares))


def _of(experiment: Experiment, evidence: Evidence) -> Finals:
    drawn = dict.fromkeys(drawing.measure for drawing in experiment.drawings)
    called = {m: next(d.y_label for d in experiment.drawings if d.measure == m) for m in drawn}
    called |= {d.control: f"{d.y_label}, control" for d in experiment.drawings if d.control}
    arms = tuple(arm for arm, by_user in evidence.runs.items() if any(by_user.values()))
    cells: dict[Place, Cell] = {}
    for measure in called:
        cells |= _column(evidence, arms, measure, star(experiment))
    known = {measure: text for measure, text in called.items() if any(place[2] == measure for place in cells)}
    times = {arm: _milliseconds(evidence, arm) for arm in arms}
    return Finals(evidence.data, star(experiment), arms, tuple(evidence.users), known, cells, times)


def _column(evidence: Evidence, arms: Sequence[str], measure: str, star: str) -> dict[Place, Cell]:
    """Return the cells of a measure for all users: Holm's correction counts them together."""
    direction = sign(measure)
    means = {
        (arm, user): significance.mean(list(evidence.finals(arm, user, measure).values()))
        for arm in arms
        for user in evidence.users
    }
    means = {place: m for place, m in means.items() if m.n}
    differences = {
        (arm, user): direction * evidence.differences(arm, star, user, measure)
        for arm, user in means
        if direction and arm != star and (star, user) in means
    }
    corrected = dict(
        zip(differences, significance.holm([significance.paired(d) for d in differences.values()]), strict=True)
    )
    return {
        (arm, user, measure): Cell(
            m,
            _is_best(m.value, [other.value for (_, of), other in means.items() if of == user], direction),
            corrected.get((arm, user), math.nan),
            float(differences[arm, user].mean()) if len(differences.get((arm, user), ())) else math.nan,
        )
        for (arm, user), m in means.items()
    }


def _is_best(value: float, among: Sequence[float], direction: int) -> bool:
    return bool(direction) and len(among) > 1 and direction * value == max(direction * other for other in among)


def _milliseconds(evidence: Evidence, arm: str) -> float:
    runs = [run for found in evidence.runs[arm].values() for run in found]
    return float(np.median([1000 * run.last("seconds") / run.rounds[-1] for run in runs]))
