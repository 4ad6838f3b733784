"""Figures: colour-blind safe, labelled where the eye is, written whole or not at all."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from perturank.errors import BadInput

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:
    raise BadInput("figures need matplotlib", "pip install 'perturank[figures]'") from None

# Okabe and Ito's palette: distinct under every common colour blindness, and in grey.
INK = "#333333"
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def curves(
    panels: Mapping[str, Mapping[str, Mapping[int, float]]], *, x_label: str, y_label: str, title: str, path: Path
) -> None:
    """Draw a panel of named curves {x: y} per entry, both axes logarithmic, each curve named at its end; PNG."""
    figure = Figure(figsize=(4.6 * len(panels) + 0.4, 4.0), layout="constrained")
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    values = [y for curves in panels.values() for curve in curves.values() for y in curve.values()]
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, (heading, curves) in zip(axes, panels.items(), strict=True):
        panel.set(xscale="log", yscale="log", xlabel=x_label, ylim=(min(values) / 1.6, max(values) * 1.6))
        panel.set_title(heading, loc="left", fontsize=9, color=INK)
        for name, curve in curves.items():
            colour = PALETTE[names.index(name) % len(PALETTE)]
            panel.plot(list(curve), list(curve.values()), marker="o", markersize=4, color=colour)
        _name_at_the_ends(panel, curves, names)
        panel.tick_params(labelcolor=INK, labelsize=8)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(y_label, color=INK)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=11, fontweight="bold")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
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
