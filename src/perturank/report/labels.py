"""Names at the right ends of curves, moved apart so that none covers another, each with a sample of its line."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.transforms import Affine2D, Bbox
from scipy.optimize import isotonic_regression

from perturank.report.styles import INK

SIZE = 7.5  # points
LEADER, SAMPLE, GAP = 14.0, 17.0, 3.0  # points between the panel and a sample, along it, and between it and the name


def spread(targets: Sequence[float], sizes: Sequence[float]) -> np.ndarray:
    """Return centres in [0, 1] of things of these sizes, none over another, in all as near to the targets as can be.

    >>> spread([0.5, 0.5, 0.9], [0.1, 0.1, 0.1]).round(2).tolist()
    [0.45, 0.55, 0.9]
    """
    order = np.argsort(targets, kind="stable")
    wanted, tall = np.asarray(targets, np.float64)[order], np.asarray(sizes, np.float64)[order]
    steps = np.concatenate([[0.0], np.cumsum((tall[1:] + tall[:-1]) / 2)])
    # Centres less their steps need only not decrease: least squares under that is isotonic regression.
    low = tall[0] / 2
    high = max(low, 1 - tall[-1] / 2 - steps[-1])
    centres = np.empty(len(wanted))
    centres[order] = np.clip(isotonic_regression(wanted - steps).x, low, high) + steps
    return centres


def wrapped(name: str, letters: int) -> str:
    r"""Return the name in as few lines of so many letters as can be, of about one length.

    >>> wrapped("P2NeurRank N=2, wider grid of l2", 30)
    'P2NeurRank N=2,\nwider grid of l2'
    """
    n_lines = len(textwrap.wrap(name, letters))
    even = (textwrap.wrap(name, width) for width in range(1, letters + 1))
    return "\n".join(next((lines for lines in even if len(lines) <= n_lines), [name]))


def height(names: Sequence[str], letters: int) -> float:
    """Return the inches that the names need, one below the other."""
    return sum(_points(wrapped(name, letters)) for name in names) / 72


def reserve_names(axes: Axes, names: Sequence[str], letters: int, ours: Sequence[str]) -> dict[str, Annotation]:
    """Write the names beside the panel, at any height, so that the layout leaves room for them."""
    return {
        name: axes.annotate(
            wrapped(name, letters),
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


def place_names(
    axes: Axes, texts: Mapping[str, Annotation], here: Mapping[str, Line2D], like: Mapping[str, Line2D]
) -> None:
    """Move the names, once the layout stands, to the ends of the curves `here`, and lead the eye to them.

    Names of curves that are in other panels only, which look `like` this, come last, without a leader.
    """
    box = _box(axes)
    ends = {name: _end(axes, here[name]) for name in texts if name in here}
    sizes = [_points(text.get_text()) / box.height for text in texts.values()]
    heights = spread([ends[name][1] if name in ends else -1.0 for name in texts], sizes)
    start, *sample = 1 + np.array([LEADER - 2, LEADER, LEADER + SAMPLE / 2, LEADER + SAMPLE]) / box.width
    for (name, text), at in zip(texts.items(), heights, strict=True):
        text.xy = (1, float(at))
        if name in ends:
            x, y = ends[name]
            leader = Line2D([x, start], [y, at], color=like[name].get_color(), linewidth=0.5, alpha=0.7)
            _put(axes, leader)
        key = Line2D(sample, [at] * 3)
        key.update_from(like[name])
        key.set_markevery([1])
        _put(axes, key)


def _points(text: str) -> float:
    """Return the height of a name, with the room around it."""
    return SIZE * 1.17 * (text.count("\n") + 1) + 1.7


def _box(axes: Axes) -> Bbox:
    """Return the panel's box in points."""
    return axes.get_window_extent().transformed(axes.figure.dpi_scale_trans.inverted() + Affine2D().scale(72))


def _end(axes: Axes, line: Line2D) -> tuple[float, float]:
    """Return a curve's last point in parts of the panel."""
    last = np.asarray(line.get_xydata())[-1]
    x, y = axes.transAxes.inverted().transform(axes.transData.transform(last))
    return float(x), float(y)


def _put(axes: Axes, line: Line2D) -> None:
    line.set_transform(axes.transAxes)
    line.set_clip_on(False)
    line.set_in_layout(False)
    axes.add_artist(line)
