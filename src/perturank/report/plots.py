"""Curves on paper: a row of panels per data set, a column per user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from perturank.experiments.evidence import data_name
from perturank.experiments.experiment import Drawing
from perturank.report import labels
from perturank.report.curves import Line, Panel
from perturank.report.styles import INK, Style

DPI = 200  # the layout's and the PNG's: letters have other widths at another
GREY = "#808080"
CONTROL_DASHES = (1, 1.2)
REFERENCE_DASHES = ((4, 2), (1, 1.5), (6, 2, 1, 2))
PANEL = (2.35, 1.75)  # inches
WIDE, NARROW = 30, 17  # letters in a line of a name


def wide(shown: Sequence[Panel], drawing: Drawing, styles: Mapping[str, Style]) -> Figure:
    """Return the figure with a row per data set, curves named at its end; panels that are alone stand in one row."""
    rows = [[panel for panel in shown if panel.data == data] for data in dict.fromkeys(p.data for p in shown)]
    if all(len(row) == 1 for row in rows):
        rows = [[row[0] for row in rows]]
    heights = [max(PANEL[1], labels.height(_names(row), WIDE)) for row in rows]
    longest = max(min(len(name), WIDE) for row in rows for name in _names(row))
    size = (PANEL[0] * max(map(len, rows)) + 1.1 + 0.066 * longest, sum(heights) + 0.42 * len(rows) + 0.2)
    return _figure(rows, drawing, styles, WIDE, size)


def narrow(shown: Sequence[Panel], drawing: Drawing, styles: Mapping[str, Style]) -> Figure:
    """Return the same panels one below the other, each with its names: for a telephone."""
    height = sum(max(PANEL[1], labels.height(panel.names, NARROW)) + 0.45 for panel in shown) + 0.3
    return _figure([[panel] for panel in shown], drawing, styles, NARROW, (3.75, height))


def _names(row: Sequence[Panel]) -> list[str]:
    """Return the names beside a row: all of its last panel, and arms that only others have."""
    return list(dict.fromkeys([*row[-1].names, *(line.name for panel in row for line in panel.lines)]))


def _figure(
    rows: Sequence[Sequence[Panel]],
    drawing: Drawing,
    styles: Mapping[str, Style],
    letters: int,
    size: tuple[float, float],
) -> Figure:
    figure = Figure(figsize=size, dpi=DPI)
    grid = figure.subplots(len(rows), max(map(len, rows)), squeeze=False)
    everything = [panel for row in rows for panel in row]
    finish = []
    for row, below, places in zip(rows, [*rows[1:], []], grid, strict=True):
        for axes in places[len(row) :]:
            axes.remove()
        drawn = [_panel(axes, panel, row, styles) for axes, panel in zip(places, row, strict=False)]
        for column, (axes, panel) in enumerate(zip(places, row, strict=False)):
            _frame(axes, panel, drawing, everything)
            is_bottom = column >= len(below)
            axes.tick_params(
                labelleft=column == 0 or panel.data != row[0].data, labelbottom=is_bottom or grid.shape[1] == 1
            )
            axes.set(ylabel=drawing.y_label if column == 0 else "", xlabel=drawing.x_label if is_bottom else "")
        last, ours = places[len(row) - 1], [name for name, style in styles.items() if style.is_ours]
        texts = labels.reserve_names(last, _names(row), letters, ours)
        for text in texts.values():
            text.set_in_layout(len(row) == len(places))  # a shorter row has room enough
        finish.append((last, texts, drawn[-1], {name: line for lines in drawn for name, line in lines.items()}))
    ConstrainedLayoutEngine(w_pad=0.06).execute(figure)
    for made in finish:
        labels.place_names(*made)
    return figure


def _panel(axes: Axes, panel: Panel, row: Sequence[Panel], styles: Mapping[str, Style]) -> dict[str, Line2D]:
    """Draw the curves; references that the names beside the row do not tell are named in the panel."""
    drawn = _curves(axes, panel, styles)
    untold = [line.name for line in panel.references if line.name not in row[-1].names]
    if untold:
        handles = [drawn[name] for name in untold]
        axes.legend(handles, untold, loc="best", frameon=False, fontsize=6.5, labelcolor=INK, handlelength=2)
    return drawn


def _curves(axes: Axes, panel: Panel, styles: Mapping[str, Style]) -> dict[str, Line2D]:
    """Draw the references, then the arms, our own on top."""
    drawn = {}
    for i, line in enumerate(panel.references):
        dash = REFERENCE_DASHES[i % len(REFERENCE_DASHES)]
        (drawn[line.name],) = axes.plot(line.rounds, line.means, color=GREY, dashes=dash, linewidth=1.1)
    for line in panel.controls:
        axes.plot(line.rounds, line.means, color=styles[line.name].colour, dashes=CONTROL_DASHES, linewidth=1.0)
    for i, line in enumerate(sorted(panel.lines, key=lambda line: styles[line.name].is_ours)):
        style = styles[line.name]
        low, high = line.means - line.half_widths, line.means + line.half_widths
        axes.fill_between(line.rounds, low, high, color=style.colour, alpha=0.15, linewidth=0)
        (drawn[line.name],) = axes.plot(
            line.rounds,
            line.means,
            color=style.colour,
            dashes=style.dash or (None, None),
            linewidth=1.7 if style.is_ours else 1.1,
            marker=style.marker,
            markersize=3.6,
            markeredgewidth=0.6,
            markerfacecolor=style.colour if style.is_ours else "white",
            markevery=(
                0.06 + 0.07 * (i % 4),
                0.28,
            ),  # of the panel's diagonal: few, and not where neighbours have theirs
        )
    return drawn


def _frame(axes: Axes, panel: Panel, drawing: Drawing, everything: Sequence[Panel]) -> None:
    axes.set(xscale="log" if drawing.log_x else "linear", yscale="log" if drawing.log_y else "linear")
    lines = [line for each in everything for line in each.everything]
    rounds = np.concatenate([np.zeros(1), *(line.rounds for line in lines)])
    axes.set_xlim(*_limits(rounds, drawing.log_x, 0.0))
    same = [line for each in everything if each.data == panel.data for line in each.everything]
    axes.set_ylim(*_limits(np.concatenate([_heights(line) for line in same]), drawing.log_y, 0.04))
    _ticks(axes.xaxis, drawing.log_x)
    if drawing.against:
        axes.invert_xaxis()  # rounds still go to the right
    _ticks(axes.yaxis, drawing.log_y)
    axes.set_title(f"{data_name(panel.data)} · {panel.user}", loc="left", fontsize=8, color=INK, parse_math=False)
    axes.tick_params(labelcolor=INK, color=INK, labelsize=7, length=2.5, width=0.6)
    axes.xaxis.label.set(fontsize=8, color=INK)
    axes.yaxis.label.set(fontsize=8, color=INK)
    axes.grid(color=GREY, alpha=0.18, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=INK, linewidth=0.6)
    axes.patch.set_visible(False)


def _ticks(axis: Axis, is_log: bool) -> None:
    low, high = axis.get_view_interval()
    is_short = high / low < 30 if is_log else True  # powers of ten alone would be too few
    if is_log:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if is_short else LogLocator(numticks=5))
    else:
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2.5, 5, 10]))
    if is_short:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_locator(NullLocator())


def _heights(line: Line) -> np.ndarray:
    half = np.nan_to_num(line.half_widths)
    return np.concatenate([line.means, line.means - half, line.means + half])


def _limits(values: np.ndarray, is_log: bool, margin: float) -> tuple[float, float]:
    """Return the limits of an axis that shows all values, with some room."""
    kept = np.log10(values[values > 0]) if is_log else values
    low, high = float(kept.min()), float(kept.max())
    if high == low:
        low, high = low - 0.5, high + 0.5
    room = margin * (high - low)
    low, high = low - room, high + room
    return (float(10.0**low), float(10.0 ** min(high, 307.0))) if is_log else (low, high)
