from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from benchmarks.figure import draw_curves


def saved(monkeypatch: pytest.MonkeyPatch, draw: Callable[[], None]) -> Figure:
    """Draw, and return the figure that was saved."""
    kept: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *args: object, **options: object) -> None:
        kept.append(figure)
        save(figure, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Figure, "savefig", keep)
    draw()
    return kept[0]


def test_curves_are_a_png_with_every_name_at_the_end_of_its_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("whole history", "budget", "oracle")
    panels = {
        heading: {name: {100: 1.0 + i / 100, 5000: 2.0 + i / 100} for i, name in enumerate(names)}
        for heading in ("300 queries", "6,000 queries")
    }
    figure = saved(monkeypatch, lambda: draw_curves(panels, tmp_path / "c.png"))
    assert [path.name for path in tmp_path.iterdir()] == ["c.png"]  # nothing half-written stays
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text() in names]
    boxes = [text.get_window_extent() for text in texts]
    assert len(boxes) == 2 * len(names)
    assert not [(a, b) for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]
