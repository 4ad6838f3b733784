"""The figure of the cost per round: colour-blind safe, each curve named at its end, written whole or not at all."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from perturank.report.styles import INK, PALETTE


def draw_curves(panels: Mapping[str, Mapping[str, Mapping[int, float]]], path: Path) -> None:
    """Write a PNG: a panel of named curves {round: milliseconds} per entry, both axes logarithmic."""
    figure = Figure(figsize=(4.6 * len(panels) + 0.4, 4.0), layout="constrained")
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    values = [y for curves in panels.values() for curve in curves.values() for y in curve.values()]
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, (heading, curves) in zip(axes, panels.items(), strict=True):
        panel.set(xscale="log", yscale="log", xlabel="round t", ylim=(min(values) / 1.6, max(values) * 1.6))
        panel.set_title(heading, loc="left", fontsize=9, color=INK)
        for name, curve in curves.items():
            colour = PALETTE[names.index(name) % len(PALETTE)]
            panel.plot(list(curve), list(curve.values()), marker="o", markersize=4, color=colour)
        _name_at_the_ends(panel, curves, names)
        panel.tick_params(labelcolor=INK, labelsize=8)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("milliseconds per round", color=INK)
    figure.suptitle(
        "Cost of a round: rank, click and learn", x=0.01, ha="left", color=INK, fontsize=11, fontweight="bold"
    )
    written = path.with_suffix(".part")
    figure.savefig(written, format="png", dpi=150)
    os.replace(written, path)


def _name_at_the_ends(panel: Axes, curves: Mapping[str, Mapping[int, float]], names: Sequence[str]) -> None:
    """Write each curve's name at its last point, moved up where it would cover the one below."""
    low, high = panel.get_ylim()
    gap = 0.06 * math.log(high / low)
    before = -math.inf
    first, last = (end(x for curve in curves.values() for x in curve) for end in (min, max))
    panel.set_xticks([tick for tick in panel.get_xticks() if first / 2 <= tick <= 2 * last])
    panel.set_xlim(first / 1.5, last * 30)  # room for the names
    panel.set_xticks([], minor=True)
    for name, curve in sorted(curves.items(), key=lambda item: item[1][max(item[1])]):
        height = max(math.log(curve[max(curve)]), before + gap)
        before = height
        colour = PALETTE[names.index(name) % len(PALETTE)]
        panel.text(max(curve) * 1.2, math.exp(height), name, va="center", fontsize=8, color=colour)
