"""The pictures of the idea are what a real ranker gives."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from docs import pictures


@cache
def seen() -> pictures.Seen:
    return pictures.seen()


def test_the_pictures_that_are_kept_are_those_that_are_drawn() -> None:
    for file, picture in pictures.drawn(seen()).items():
        assert (pictures.IMAGES / file).read_text() == picture, f"run: python docs/pictures.py ({file})"


def test_the_pictures_show_something_of_each_kind() -> None:
    free = [n for _, each in seen().lists for n in each]
    assert 0 < seen().certain.sum() < 15
    assert len(seen().layers) > 1
    assert 1 in free
    assert max(free) > 1


def test_every_list_follows_the_certain_orders() -> None:
    for documents, _ in seen().lists:
        places = np.argsort(documents)
        for high, low in np.argwhere(seen().certain):
            assert places[high] < places[low]


@pytest.mark.parametrize("file", sorted(pictures.IMAGES.glob("*.svg")), ids=lambda file: file.name)
def test_a_picture_is_well_formed_and_has_a_title(file: Path) -> None:
    found = ET.parse(file).getroot().find("{http://www.w3.org/2000/svg}title")
    assert found is not None
    assert found.text
