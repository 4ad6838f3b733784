"""Figures: colour-blind safe, labelled where the eye is, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from perturank.errors import BadInput

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
except ImportError:
    raise BadInput("figures need matplotlib", "pip install 'perturank[figures]'") from None

# Okabe and Ito's palette: distinct under every common colour blindness, and in grey.
COLOURS = {"linear": "#0072B2", "network": "#E69F00", "neither": "#999999"}
INK = "#333333"


def ranked(names: Sequence[str], measures: Mapping[str, Sequence[float]], *, title: str, path: Path) -> None:
    """Draw one panel of bars per measure, the rankers in the given order from the top; PNG."""
    height = 1.3 + 0.27 * len(names)
    figure = Figure(figsize=(4.8 * len(measures), height), layout="constrained")
    panels = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
    for panel, (measure, values) in zip(panels, measures.items(), strict=True):
        _bars(panel, names, values, measure)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=11, fontweight="bold")
    _legend(figure, names)
    written = path.with_suffix(".part")
    figure.savefig(written, format="png", dpi=150)
    os.replace(written, path)


def kind(name: str) -> str:
    """Return what a ranker of this name learns: a linear scorer, a network, or neither.

    >>> kind("p2neurrank"), kind("pairrank-diag"), kind("random")
    ('network', 'linear', 'neither')
    """
    if name == "random":
        return "neither"
    return "network" if any(word in name for word in ("neur", "ranknet")) else "linear"


def _bars(panel: Axes, names: Sequence[str], values: Sequence[float], measure: str) -> None:
    places = range(len(names), 0, -1)
    panel.barh(list(places), list(values), height=0.7, color=[COLOURS[kind(name)] for name in names])
    room, digits = 0.01 * max(values), 3 if max(values) <= 1 else 1
    for place, value in zip(places, values, strict=True):
        panel.text(value + room, place, f"{value:.{digits}f}", va="center", fontsize=8, color=INK)
    panel.set_title(measure, loc="left", fontsize=9, color=INK)
    panel.set_xlim(0, 1.12 * max(values))
    panel.set_ylim(0.4, len(names) + 0.6)
    panel.set_yticks(list(places), list(names), fontsize=9)
    panel.tick_params(length=0, labelcolor=INK)
    panel.set_xticks([])
    panel.spines[["top", "right", "bottom"]].set_visible(False)


def _legend(figure: Figure, names: Sequence[str]) -> None:
    present = [word for word in COLOURS if word in map(kind, names)]
    patches = [Patch(color=COLOURS[word], label=word) for word in present]
    figure.legend(handles=patches, loc="upper right", ncols=len(present), frameon=False, fontsize=9, labelcolor=INK)
