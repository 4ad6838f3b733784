"""Names at the right ends of curves, moved apart so that none covers another, each with a sample of its line."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from scipy.optimize import isotonic_regression

from perturank.figures import INK

SIZE = 7.5  # points
LEADER, SAMPLE, GAP = 14.0, 17.0, 3.0  # points between the panel and a sample, along it, and between it and the name


def spread(targets: Sequence[float], gap: float, low: float, high: float) -> np.ndarray:
    """Return places at least `gap` apart within [low, high], in all as near to the targets as can be.

    >>> spread([0.5, 0.5, 0.9], 0.1, 0.0, 1.0).round(2).tolist()
    [0.45, 0.55, 0.9]
    """
    wanted = np.asarray(targets, np.float64)
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    # Places less their steps need only not decrease: least squares under that is isotonic regression.
    places = np.asarray(isotonic_regression(wanted[order] - steps).x).clip(low, max(low, high - gap * (len(wanted) - 1)))
    spaced = np.empty(len(wanted))
    spaced[order] = places + steps
    return spaced


def n_lines(names: Sequence[str], letters: int) -> int:
    """Return how many lines the tallest name takes, broken after so many letters."""
    return max((len(textwrap.wrap(name, letters)) for name in names), default=1)


def height(names: Sequence[str], letters: int) -> float:
    """Return the inches that the names need, one below the other."""
    return len(names) * _step(n_lines(names, letters)) / 72


def reserved(axes: Axes, names: Sequence[str], letters: int, ours: Sequence[str] = ()) -> dict[str, Annotation]:
    """Write the names beside the panel, at any height, so that the layout leaves room for them."""
    return {
        name: axes.annotate(
            textwrap.fill(name, letters),
            xy=(1, 0.5),
            xycoords="axes fraction",
            xytext=(LEADER + SAMPLE + GAP, 0),
            textcoords="offset points",
            va="center",
            fontsize=SIZE,
            linespacing=1.0,
            color=INK,
            fontweight="bold" if name in ours else "normal",
            parse_math=False,
            annotation_clip=False,
        )
        for name in names
    }


def placed(axes: Axes, texts: Mapping[str, Annotation], ends: Mapping[str, Line2D]) -> None:
    """Move the names, once the layout stands, to the ends of their curves, and lead the eye from one to the other."""
    box = axes.get_window_extent()
    point = axes.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    to_panel = axes.transData + axes.transAxes.inverted()
    points = {name: to_panel.transform((line.get_xdata()[-1], line.get_ydata()[-1])) for name, line in ends.items()}  # type: ignore[index]
    tallest = max((text.get_text().count("\n") + 1 for text in texts.values()), default=1)
    gap = _step(tallest) * point / box.height
    heights = spread([points[name][1] for name in texts], gap, min(gap / 2, 0.5), 1 - min(gap / 2, 0.5))
    start = 1 + (LEADER - 2) * point / box.width
    sample = np.array([LEADER, LEADER + SAMPLE / 2, LEADER + SAMPLE]) * point / box.width + 1
    free = {"transform": axes.transAxes, "clip_on": False, "in_layout": False}
    for (name, text), at in zip(texts.items(), heights, strict=True):
        line = ends[name]
        text.xy = (1, float(at))
        x, y = points[name]
        axes.add_line(Line2D([x, start], [y, at], color=line.get_color(), linewidth=0.5, alpha=0.7, **free))
        key = Line2D(sample, [at] * 3, **free)
        key.update_from(line)
        key.set(**free, markevery=[1])
        axes.add_line(key)


def _step(lines: int) -> float:
    """Return the points between names of so many lines."""
    return SIZE * 1.17 * lines + 1.7
