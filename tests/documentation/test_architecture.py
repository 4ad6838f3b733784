"""docs/architecture.md and its picture name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.fenced import ROOT

from docs import house

PACKAGE = ROOT / "src" / "perturank"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMES = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}


def test_every_file_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert named
    assert [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in NAMES)] == []


def test_the_picture_is_that_of_the_package() -> None:
    assert house.PICTURE.read_text(encoding="utf-8") == house.draw(), "run: python docs/house.py"


def test_every_module_has_its_room() -> None:
    shown = re.findall(r'class="files">([^<]*)<', house.draw())
    drawn = {Path(name).stem for line in shown for name in line.split()}
    assert {path.stem for path in PACKAGE.glob("*.py")} - drawn <= {"__init__", "__about__", "__main__"}
