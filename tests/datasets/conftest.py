"""Every test has its own cache, and writes its own small files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from oracles.data import Write


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this test a cache of its own."""
    place = tmp_path / "cache"
    monkeypatch.setenv("PERTURANK_CACHE", str(place))
    return place


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a text file, zipped if its name ends in .gz, and return its path."""

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return written
