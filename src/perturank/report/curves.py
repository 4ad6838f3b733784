"""What a figure shows, as numbers: for every panel the mean of its runs round by round, with the interval."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perturank import significance
from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Drawing, Finding
from perturank.results.outcome import RunOutcome


@dataclass(frozen=True, eq=False)
class Line:
    """A curve by name; `half_widths` are of the 95 % interval, NaN where fewer than two runs know the value."""

    name: str
    rounds: np.ndarray
    means: np.ndarray
    half_widths: np.ndarray
    counts: np.ndarray

    @property
    def end(self) -> tuple[float, float]:
        """The last point."""
        return float(self.rounds[-1]), float(self.means[-1])


@dataclass(frozen=True, eq=False)
class Panel:
    """The curves of one user on one data set.

    `references` (a fit, a bound) are no runs. A control has the name of the arm beside which it is drawn.
    """

    data: str
    user: str
    lines: tuple[Line, ...]
    references: tuple[Line, ...]
    controls: tuple[Line, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of all curves."""
        return [line.name for line in (*self.lines, *self.references)]

    @property
    def everything(self) -> tuple[Line, ...]:
        """All curves."""
        return (*self.lines, *self.references, *self.controls)


def panels(finding: Finding, drawing: Drawing) -> list[Panel]:
    """Return the panels that have something to show, by data set and user."""
    users = list(dict.fromkeys(user for evidence in finding.evidence for user in evidence.users))
    found = [_panel(evidence, user, drawing) for evidence in finding.evidence for user in users]
    return [panel for panel in found if panel.lines]


def mean_line(name: str, runs: Sequence[RunOutcome], measure: str, against: str = "") -> Line:
    """Return the mean over runs at every round where one of them was evaluated and knows the measure.

    With `against`, the mean of that measure stands in for the round; there is no interval in two directions.
    """
    values: dict[int, list[float]] = {}
    places: dict[int, list[float]] = {}
    for run in runs:
        xs = run.measures[against] if against else run.rounds
        for at, x, value in zip(run.rounds, xs, run.measures[measure], strict=True):
            if np.isfinite(value):
                values.setdefault(int(at), []).append(float(value))
                places.setdefault(int(at), []).append(float(x))
    means = [significance.mean(values[at]) for at in sorted(values)]
    return Line(
        name,
        np.array([np.mean(places[at]) for at in sorted(values)], np.float64),
        np.array([m.value for m in means]),
        np.array([np.nan if against else m.half_width for m in means]),
        np.array([m.n for m in means], np.int64),
    )


def to_csv(shown: Sequence[Panel], x: str = "round") -> bytes:
    """Return the numbers behind a figure, a row per curve and round; references have no runs and no interval."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("data", "user", "curve", "kind", x, "mean", "low", "high", "runs"))
    for panel in shown:
        for kind, lines in (("arm", panel.lines), ("control", panel.controls), ("reference", panel.references)):
            for line in lines:
                for at, mean, half, n in zip(line.rounds, line.means, line.half_widths, line.counts, strict=True):
                    band = ("", "") if np.isnan(half) else (repr(float(mean - half)), repr(float(mean + half)))
                    rows.writerow((panel.data, panel.user, line.name, kind, f"{at:.15g}", repr(float(mean)), *band, n))
    return text.getvalue().encode()


def _panel(evidence: Evidence, user: str, drawing: Drawing) -> Panel:
    kept = _arms(evidence, user, drawing, drawing.measure)
    controls = _arms(evidence, user, drawing, drawing.control) if drawing.control else ()
    references = [] if drawing.references is None or not kept else drawing.references(evidence, user).items()
    grey = (_visible(_reference(name, *curve), drawing) for name, curve in references)
    return Panel(evidence.data, user, kept, tuple(line for line in grey if len(line.rounds)), controls)


def _arms(evidence: Evidence, user: str, drawing: Drawing, measure: str) -> tuple[Line, ...]:
    runs = {arm: by_user.get(user, ()) for arm, by_user in evidence.runs.items()}
    lines = (_visible(mean_line(arm, found, measure, drawing.against), drawing) for arm, found in runs.items())
    return tuple(line for line in lines if len(line.rounds))


def _reference(name: str, rounds: np.ndarray, values: np.ndarray) -> Line:
    x, y = np.asarray(rounds, np.float64), np.asarray(values, np.float64)
    return Line(name, x, y, np.full(len(x), np.nan), np.zeros(len(x), np.int64))


def _visible(line: Line, drawing: Drawing) -> Line:
    """Return the points that the axes can show: a logarithmic one begins above 0."""
    keep = np.isfinite(line.means) & np.isfinite(line.rounds)
    keep &= (line.rounds > 0) | (not drawing.log_x)
    keep &= (line.means > 0) | (not drawing.log_y)
    return Line(line.name, line.rounds[keep], line.means[keep], line.half_widths[keep], line.counts[keep])
