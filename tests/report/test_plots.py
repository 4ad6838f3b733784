from __future__ import annotations

import itertools

import numpy as np
from helpers.made_up import USERS, drawing, finding, outcome
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text
from pytest import approx, mark

from perturank.experiments.evidence import Evidence
from perturank.experiments.experiment import Arm, Drawing
from perturank.report import curves, labels, plots
from perturank.report.styles import styles

ARMS = tuple(Arm(f"a ranker with a long name, {i}", "pdgd", is_ours=i < 3) for i in range(12))


def figures(drawn: Drawing | None = None, users: dict[str, tuple[str, ...]] | None = None) -> list[Figure]:
    """Return the wide and the narrow figure of twelve arms that all end nearly together."""
    on = users or {"first": USERS, "second": USERS}
    evidence = [
        Evidence(
            data,
            {
                arm.label: {
                    user: [outcome({"ndcg": [0.1, 0.5 + i / 1e4 + seed / 100]}, [1, 500], seed=seed) for seed in (0, 1)]
                    for user in of
                }
                for i, arm in enumerate(ARMS)
            },
        )
        for data, of in on.items()
    ]
    made = finding(evidence, ARMS)
    shown = curves.panels(made, drawn or drawing())
    return [draw(shown, drawn or drawing(), styles([made])) for draw in (plots.wide, plots.narrow)]


def written(figure: Figure) -> list[Text]:
    """Return the texts that are drawn: ticks beyond an axis's limits have one that is not."""
    figure.draw_without_rendering()
    ticks = [
        (tick, sorted(axis.get_view_interval()))
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
    ]
    beyond = {id(label) for t, (low, high) in ticks if not low <= t.get_loc() <= high for label in (t.label1, t.label2)}
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and id(text) not in beyond]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def test_an_axis_of_a_measure_runs_to_its_fall_and_controls_are_dotted_in_their_arms_colours() -> None:
    shown = drawing("ndcg", against="uncertain", control="regret", x_label="share of uncertain pairs")
    ends = {"ndcg": [0.1, 0.5], "uncertain": [0.9, 0.2], "regret": [0.2, 0.4]}
    runs = {arm.label: {"perfect": [outcome(ends, [1, 500])]} for arm in ARMS[:2]}
    made = finding([Evidence("first", runs)], ARMS)
    figure = plots.wide(curves.panels(made, shown), shown, styles([made]))
    axes = figure.axes[0]
    assert axes.get_xlabel() == "share of uncertain pairs"
    assert axes.get_xlim()[0] > axes.get_xlim()[1]
    lines = [line for line in axes.get_lines() if np.array_equal(line.get_xdata(), [0.9, 0.2])]
    assert len(lines) == 4
    assert {line.get_color() for line in lines[:2]} == {line.get_color() for line in lines[2:]}


@mark.parametrize("log", [False, True])
def test_no_text_is_clipped_or_covers_another(log: bool) -> None:
    for figure in figures(drawing(log_x=log, log_y=log)):
        boxes = [text.get_window_extent() for text in written(figure)]
        assert len(boxes) > len(ARMS)
        assert all(box.x0 >= 0 and box.y0 >= 0 for box in boxes)
        assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)
        assert not [(a, b) for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]


def test_a_logarithmic_axis_of_less_than_a_decade_has_numbers() -> None:
    for figure in figures(drawing(log_x=True, log_y=True)):
        low, high = figure.axes[0].get_ylim()
        assert len([tick for tick in figure.axes[0].get_yticks() if low <= tick <= high]) >= 2


def test_every_row_names_every_arm_once_and_the_narrow_figure_in_every_panel() -> None:
    texts = [[text.get_text().replace("\n", " ") for text in written(figure)] for figure in figures()]
    counts = [[found.count(arm.label) for arm in ARMS] for found in texts]
    assert counts == [[2] * len(ARMS), [6] * len(ARMS)]


def test_a_user_without_runs_leaves_no_empty_panel() -> None:
    for figure in figures(users={"first": USERS, "second": ("perfect",)}):
        assert len(figure.axes) == len(USERS) + 1
        assert all(len(axes.lines) >= len(ARMS) for axes in figure.axes)


def test_panels_that_are_alone_stand_side_by_side() -> None:
    wide, narrow = figures(users={"first": ("perfect",), "second": ("perfect",)})
    first, second = (axes.get_position() for axes in wide.axes)
    assert first.y0 == approx(second.y0)
    assert first.x1 < second.x0
    assert narrow.axes[0].get_position().x0 == approx(narrow.axes[1].get_position().x0)


def test_a_reference_whose_name_differs_by_panel_is_named_in_each() -> None:
    x = np.array([1.0, 500.0])
    fits = drawing(references=lambda evidence, user: {f"fit of {user}": (x, x / 1000), "bound": (x, x / 500)})
    texts = [text.get_text() for text in written(figures(fits, {"first": USERS})[0])]
    assert [texts.count(f"fit of {user}") for user in USERS] == [1, 1, 1]
    assert texts.count("bound") == 1


@given(st.lists(st.tuples(st.floats(-0.2, 1.2), st.floats(0.02, 0.08)), min_size=1, max_size=12))
def test_labels_stay_inside_and_do_not_touch(wanted: list[tuple[float, float]]) -> None:
    targets, sizes = [t for t, _ in wanted], [s for _, s in wanted]
    at = labels.spread(targets, sizes)
    ends = sorted((c - s / 2, c + s / 2) for c, s in zip(at, sizes, strict=True))
    assert ends[0][0] >= -1e-9
    assert ends[-1][1] <= 1 + 1e-9
    assert all(low[1] <= high[0] + 1e-9 for low, high in itertools.pairwise(ends))


def test_labels_with_room_stay_where_their_curves_end() -> None:
    assert labels.spread([0.9, 0.2, 0.5], [0.1] * 3).tolist() == approx([0.9, 0.2, 0.5])
