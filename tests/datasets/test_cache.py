"""The cache: whole or absent, never in the data folder, and refused when damaged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from oracles.data import Write, letor

from perturank import machine
from perturank.datasets import cache, load
from perturank.datasets.svmlight import Text, read
from perturank.errors import BadInput

TEXT = letor([1, 2, 3, 4, 5], 4)


def entries(folder: Path) -> list[Path]:
    """Return the entries of a cache, drafts included."""
    return sorted(folder.iterdir())


@pytest.fixture
def data(write: Write) -> Path:
    """Write a folder of three splits."""
    paths = [write(f"data/{split}.txt", TEXT + f"# {split}\n") for split in ("train", "vali", "test")]
    return paths[0].parent


def test_the_second_load_is_a_memory_map_of_the_same_numbers(
    data: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    first = load(data)
    monkeypatch.setattr("perturank.datasets.reader.read", pytest.fail)  # nothing may be parsed again
    second = load(data)
    assert isinstance(second.train.features, np.memmap)
    assert not second.train.features.flags.writeable
    for one, other in zip(first.splits.values(), second.splits.values(), strict=True):
        assert np.array_equal(one.features, other.features)
        assert np.array_equal(one.labels, other.labels)
        assert one.qids.tolist() == other.qids.tolist()
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before
    assert len(entries(cache_folder)) == 3


def test_changed_bytes_or_options_are_parsed_anew(data: Path) -> None:
    scaled = load(data).train.features.max()
    assert load(data, normalise=False).train.features.max() > scaled == 1
    for split in ("train", "vali", "test"):
        (data / f"{split}.txt").write_text(letor([1, 2], 3))
    assert load(data).n_features == 3


@pytest.mark.parametrize("array", ["features.npy", "labels.npy", "qids.npy", "manifest.json"])
def test_a_truncated_entry_is_refused_with_the_folder_to_delete(data: Path, cache_folder: Path, array: str) -> None:
    load(data)
    for entry in entries(cache_folder):
        os.truncate(entry / array, (entry / array).stat().st_size - 3)
    with pytest.raises(BadInput, match=r"the cached copy .* is damaged; delete that folder") as error:
        load(data)
    assert any(str(entry) in str(error.value) for entry in entries(cache_folder))


def test_a_changed_label_is_noticed_though_the_size_is_the_same(data: Path, cache_folder: Path) -> None:
    load(data)
    for entry in entries(cache_folder):
        content = (entry / "labels.npy").read_bytes()
        (entry / "labels.npy").write_bytes(content[:-1] + b"\x07")
    with pytest.raises(BadInput, match="damaged"):
        load(data)


def test_a_missing_array_is_noticed(data: Path, cache_folder: Path) -> None:
    load(data)
    for entry in entries(cache_folder):
        (entry / "features.npy").unlink()
    with pytest.raises(BadInput, match="damaged"):
        load(data)


def test_a_cache_folder_that_cannot_be_written_is_named(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("perturank.datasets.reader.read", pytest.fail)  # and before anything is parsed
    monkeypatch.setenv("PERTURANK_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(BadInput, match=r"cannot use the cache folder .*/file/cache: .*; set PERTURANK_CACHE"):
        load(data)


def test_nothing_half_written_stays_behind(data: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)  # the manifest comes last, after the arrays
    with pytest.raises(BadInput, match="No space left on device"):
        load(data)
    assert entries(cache_folder) == []


def test_a_bad_file_leaves_no_entry(write: Write, cache_folder: Path) -> None:
    with pytest.raises(BadInput):
        load(write("bad.txt", "1 qid:1 1:x\n"))
    assert entries(cache_folder) == []


def test_an_entry_made_meanwhile_by_another_process_is_used(write: Write) -> None:
    path = write("a.txt", TEXT)
    parse = _parsing(path)

    def slow() -> Text:
        cache.cached(path, {}, parse)  # the other process
        return parse()

    assert cache.cached(path, {}, slow).dataset.n_queries == 5
    assert len(entries(machine.cache_folder())) == 1


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert machine.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("PERTURANK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert machine.cache_folder() == tmp_path / "perturank"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert machine.cache_folder() == Path.home() / ".cache" / "perturank"


def _parsing(path: Path) -> Callable[[], Text]:
    return lambda: read(path)
