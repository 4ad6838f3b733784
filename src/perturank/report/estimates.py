"""Estimates of another ranker's value as a figure: each with its interval, beside what was earned."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from perturank.counterfactual import Estimate, Interval
from perturank.report.styles import COLOURS, INK

WIDTH, ROW, REST = 6.4, 0.32, 1.1  # inches
DPI = 200
GREY = "#808080"


def estimates_figure(title: str, label: str, earned: Interval, estimates: Sequence[Estimate]) -> Figure:
    """Return a row for each estimate, the first on top; one that was refused is said to be."""
    figure = Figure(figsize=(WIDTH, REST + ROW * len(estimates)), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    axes.axvspan(earned.low, earned.high, color=GREY, alpha=0.25, lw=0)
    axes.axvline(earned.value, color=GREY, lw=1)
    for row, each in enumerate(estimates):
        if each.value is None or each.low is None or each.high is None:
            axes.text(0.01, row, "refused", va="center", color=GREY, transform=axes.get_yaxis_transform())
            continue
        axes.plot([each.low, each.high], [row, row], color=COLOURS[0], lw=2, solid_capstyle="butt")
        axes.plot(each.value, row, "o", color=COLOURS[0], ms=4)
    axes.set_yticks(range(len(estimates)), [each.estimator for each in estimates])
    axes.set_ylim(len(estimates) - 0.5, -0.5)
    axes.set_xlabel(f"{label}; grey: what was earned", color=INK)
    axes.set_title(title, loc="left", fontsize=10)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure
