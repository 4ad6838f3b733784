from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from perturank import figures

NAMES = [f"a-rather-long-ranker-name-{i}" for i in range(17)]


def drawn(monkeypatch: pytest.MonkeyPatch, path: Path) -> Figure:
    """Draw, and return the figure that was saved."""
    kept: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *args: object, **options: object) -> None:
        kept.append(figure)
        save(figure, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Figure, "savefig", keep)
    values = [float(i) for i in range(len(NAMES), 0, -1)]
    figures.ranked(NAMES, {"online: a": values, "offline: b": values}, title="T", path=path)
    return kept[0]


def test_a_figure_is_a_png_and_nothing_half_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn(monkeypatch, tmp_path / "rankers.png")
    assert [path.name for path in tmp_path.iterdir()] == ["rankers.png"]
    assert (tmp_path / "rankers.png").read_bytes().startswith(b"\x89PNG")


def test_no_two_texts_of_a_figure_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = drawn(monkeypatch, tmp_path / "rankers.png")
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_visible() and text.get_text()]
    boxes = {text.get_text(): text.get_window_extent() for text in texts if text.get_text() in NAMES} | {
        f"{i}": text.get_window_extent() for i, text in enumerate(texts) if text.get_text() not in NAMES
    }
    assert len(boxes) > 3 * len(NAMES)
    assert not [(a, b) for a, b in itertools.combinations(boxes.values(), 2) if a.overlaps(b)]
