"""docs/paper.md leads from everything in the paper to code that exists."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from types import ModuleType

import pytest
from helpers.fenced import ROOT

import perturank

PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
LABELS = (ROOT / "tests" / "paper_labels.txt").read_text().split()
PLACES = ("", "docs", "src/perturank", "src/perturank/experiments")
ALGORITHM_LINES = range(1, 23)
DOTTED = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)`")
FILES = re.compile(r"`((?:tests|experiments|rankers|datasets|docs)/[\w/]+(?:\.py)?)/?`")


@cache
def modules() -> dict[str, list[ModuleType]]:
    """Return perturank's modules by the last part of their names."""
    found: dict[str, list[ModuleType]] = {}
    for info in pkgutil.walk_packages(perturank.__path__, "perturank."):
        if not info.name.endswith("__main__"):
            found.setdefault(info.name.rpartition(".")[2], []).append(importlib.import_module(info.name))
    return found


@pytest.mark.parametrize("label", LABELS)
def test_every_label_of_the_paper_has_its_line(label: str) -> None:
    assert f"`{label}`" in PAGE


def test_every_line_of_the_algorithm_has_its_code() -> None:
    told = set[int]()
    for first, last in re.findall(r"^\| (?:`alg:model` )?lines? (\d+)(?:–(\d+))? ", PAGE, re.M):
        told |= set(range(int(first), int(last or first) + 1))
    assert told == set(ALGORITHM_LINES)


@pytest.mark.parametrize("name", sorted(set(DOTTED.findall(PAGE))))
def test_every_name_leads_to_code(name: str) -> None:
    if name.endswith((".md", ".py", ".json", ".html")):
        assert any((ROOT / folder / name).exists() for folder in PLACES)
        return
    head, *rest = name.split(".")
    assert any(_leads_on(start, rest) for start in _starts(head)), name


@pytest.mark.parametrize("name", sorted(set(FILES.findall(PAGE))))
def test_every_file_exists(name: str) -> None:
    assert any((folder / name).exists() for folder in (ROOT, ROOT / "src" / "perturank")), name


def _starts(head: str) -> list[object]:
    """Return the modules and the classes of this name."""
    every = [module for same in modules().values() for module in same]
    return [*modules().get(head, []), *(vars(module)[head] for module in every if head in vars(module))]


def _leads_on(start: object, rest: list[str]) -> bool:
    """Say whether each name is an attribute of the one before; fields of classes count."""
    for name in rest:
        fields = getattr(start, "__annotations__", {})
        if not hasattr(start, name) and name not in fields:
            return False
        start = getattr(start, name, None)
    return True
