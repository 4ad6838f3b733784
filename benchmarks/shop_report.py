"""What the shop trial found: finished runs as JSON, tables, and a figure of the curves."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.shop import Run
from benchmarks.shop_arms import ARMS
from perturank.cli.console import table
from perturank.errors import BadInput

FORMAT = 1
MEASURES = {
    "shown": "as shown, since the column before",
    "best": "best order, queries as often as searched",
    "best_of_queries": "best order, every query once",
}


def read_runs(path: Path, searches: int) -> list[Run]:
    """Return the finished runs of an earlier trial of so many searches; none if there is no file."""
    if not path.exists():
        return []
    try:
        held = json.loads(path.read_text())
        if held["format"] != FORMAT:
            raise ValueError(f"its format is {held['format']}")
        runs = [Run.from_dict(each) for each in held["runs"]]
    except (ValueError, LookupError, TypeError) as error:
        raise BadInput(f"{path} holds no runs of the shop trial ({error})", "name another file") from None
    if other := {run.searches for run in runs} - {searches}:
        raise BadInput(f"{path} holds runs of {min(other)} searches", f"give --searches {min(other)}, or another file")
    return runs


def write_runs(runs: Sequence[Run], path: Path) -> None:
    """Write all runs, or leave the file as it was."""
    written = path.with_name(path.name + ".part")
    written.write_text(json.dumps({"format": FORMAT, "runs": [run.as_dict() for run in runs]}, indent=1) + "\n")
    os.replace(written, path)


def tables(runs: Sequence[Run]) -> list[Table]:
    """Return a table for each measure, and one of the lag; all runs have the same checkpoints."""
    by_arm = {arm: {run.seed: run for run in runs if run.arm == arm} for arm in ARMS}
    present = {arm: found for arm, found in by_arm.items() if found}
    made = []
    for measure, title in MEASURES.items():
        stops = list(getattr(runs[0], measure))
        listed = table(f"NDCG@10, {title}", "arm", *(f"{n:,}" for n in stops), "minus engine", numbers=True)
        for arm, found in present.items():
            curves = {seed: getattr(run, measure) for seed, run in found.items()}
            engine = {seed: getattr(run, measure) for seed, run in by_arm["engine"].items()}
            shared = [curves[seed][stops[-1]] - engine[seed][stops[-1]] for seed in curves if seed in engine]
            columns = [[curve[n] for curve in curves.values()] for n in stops]
            listed.add_row(arm, *map(estimate, columns), "" if arm == "engine" else estimate(shared))
        made.append(listed)
    lag = table(
        "searches that a list's version lacked",
        *("arm", "mean", "at most", "clicks a search", "searches/s", "runs"),
        numbers=True,
    )
    for arm, found in present.items():
        each = list(found.values())
        speed = sum(run.searches for run in each) / sum(run.seconds for run in each)
        lag.add_row(
            arm,
            f"{np.mean([run.behind_mean for run in each]):.1f}",
            str(max(run.behind_most for run in each)),
            f"{np.mean([run.clicks for run in each]):.2f}",
            f"{speed:,.0f}",
            str(len(each)),
        )
    return [*made, lag]


def estimate(values: Sequence[float]) -> str:
    """Return the mean and, of several values, its standard error.

    >>> estimate([0.5, 0.7]), estimate([-0.5]), estimate([])
    ('.600 ± .100', '-.500', '–')
    """
    if not values:
        return "–"
    mean = _short(float(np.mean(values)))
    return mean if len(values) < 2 else f"{mean} ± {_short(float(np.std(values, ddof=1) / np.sqrt(len(values))))}"


def _short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1)


def draw_curves(runs: Sequence[Run], path: Path) -> None:
    """Write a PNG with a panel for each measure and a curve for each arm: means with standard errors."""
    from matplotlib.figure import Figure

    from perturank.report.styles import COLOURS, DASHES, INK, MARKERS

    figure = Figure(figsize=(13.0, 4.4), layout="constrained")
    panels = figure.subplots(1, len(MEASURES), sharey=True, squeeze=False)[0]
    arms, stops = [arm for arm in ARMS if any(run.arm == arm for run in runs)], list(runs[0].shown)
    for panel, (measure, title) in zip(panels, MEASURES.items(), strict=True):
        for arm in arms:
            i, curves = ARMS.index(arm), [getattr(run, measure) for run in runs if run.arm == arm]
            values = np.array([list(curve.values()) for curve in curves])
            errors = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
            panel.errorbar(
                list(curves[0]),
                values.mean(axis=0),
                errors,
                label=arm,
                color=COLOURS[i % len(COLOURS)],
                linestyle=(0, DASHES[i // len(COLOURS)]) if i >= len(COLOURS) else "-",
                marker=MARKERS[i],
                markersize=4,
            )
        panel.set(xscale="log", xlabel="searches")
        panel.set_xticks(stops, [f"{n:,}" for n in stops])
        panel.set_xticks([], minor=True)
        panel.set_title(title, loc="left", fontsize=9, color=INK)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("NDCG@10", color=INK)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9)
    written = path.with_suffix(".part")
    figure.savefig(written, format="png", dpi=150)
    os.replace(written, path)
