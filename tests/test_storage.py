from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
import pytest
from helpers import small
from safetensors.numpy import load_file, save_file

from perturank import catalogue, storage
from perturank.errors import BadInput


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ranker"
    storage.save(small.ranker("pdgd-linear"), path)
    return path


def rewritten(file: Path, **header: Any) -> Path:
    """Write the file beside itself with some entries of its header changed."""
    arrays, old = storage.read(file)
    save_file(arrays, file.with_suffix(".new"), {"perturank": json.dumps(old | header)})
    return file.with_suffix(".new")


def test_a_file_says_what_it_holds(file: Path) -> None:
    arrays, header = storage.read(file)
    ranker = small.ranker("pdgd-linear")
    assert header["ranker"] == "pdgd-linear"
    assert header["settings"] == ranker.settings.as_dict()
    assert header["n_features"] == 5
    assert {name: array.shape for name, array in arrays.items()} == {".theta.weight": (5,), ".rate": ()}


def test_every_kind_of_array_comes_back_as_it_was(tmp_path: Path) -> None:
    arrays: dict[str, np.ndarray] = {
        "scalar": np.float32(3.5) * np.ones(()),
        "empty": np.zeros((0, 4), np.float32),
        "turned": np.arange(6, dtype=np.int32).reshape(2, 3).T,
        "flags": np.array([True, False]),
        "words": np.array([2**32 - 1], np.uint32),
    }
    storage.write(tmp_path / "arrays", arrays, {"format": storage.FORMAT})
    found, _ = storage.read(tmp_path / "arrays")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(found[name], array)


def test_a_new_file_replaces_the_old_one_and_leaves_nothing_beside_it(file: Path) -> None:
    other = small.ranker("pdgd-linear", learning_rate=0.7)
    storage.save(other, file)
    assert small.same_bits(storage.load(file), other)
    assert [path.name for path in file.parent.iterdir()] == ["ranker"]


@pytest.mark.parametrize("keep", [0, 5, 0.5, -1])
def test_a_truncated_file_is_refused(file: Path, keep: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(BadInput, match="is damaged or not a safetensors file"):
        storage.load(file)


def test_a_garbled_file_is_refused(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[8:40] = bytes(b ^ 0xFF for b in content[8:40])
    file.write_bytes(content)
    with pytest.raises(BadInput, match="is damaged or not a safetensors file"):
        storage.load(file)


def test_a_file_of_another_program_is_refused(file: Path) -> None:
    save_file(load_file(file), file)
    with pytest.raises(BadInput, match="was not written by perturank"):
        storage.load(file)
    file.write_text("weights: 1, 2, 3")
    with pytest.raises(BadInput, match="is damaged or not a safetensors file"):
        storage.load(file)


def test_a_file_of_another_format_or_ranker_is_refused(file: Path) -> None:
    with pytest.raises(BadInput, match="has format 99; this version reads format 1; upgrade"):
        storage.load(rewritten(file, format=99))
    with pytest.raises(BadInput, match="unknown ranker 'pdgd-linaer'; did you mean 'pdgd-linear'"):
        storage.load(rewritten(file, ranker="pdgd-linaer"))
    with pytest.raises(BadInput, match="unknown hyper-parameter"):
        storage.load(rewritten(file, settings={"learning_rat": 1.0}))


def test_a_file_that_lacks_an_array_is_refused(file: Path) -> None:
    arrays, header = storage.read(file)
    storage.write(file, {".rate": arrays[".rate"]}, header)
    with pytest.raises(BadInput, match=r"lacks the array \.theta\.weight"):
        storage.load(file)


def test_a_path_that_cannot_be_read_or_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        storage.load(tmp_path / "nowhere")
    with pytest.raises(BadInput, match="cannot write"):
        storage.save(small.ranker("random"), tmp_path / "no folder" / "ranker")
    with pytest.raises(BadInput):
        storage.load(tmp_path)


def test_a_ranker_of_ones_own_is_refused_until_it_is_published(tmp_path: Path) -> None:
    class Mine(eqx.Module):
        settings: Any = eqx.field(static=True)
        n_features: int = eqx.field(static=True)

    with pytest.raises(BadInput, match="Mine is not in the catalogue"):
        storage.save(Mine(small.settings("random"), 5), tmp_path / "mine")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_file_without_a_ranker_in_its_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    storage.write(path, {"a": np.zeros(2)}, {"format": storage.FORMAT})
    with pytest.raises(BadInput, match="does not say its ranker"):
        storage.load(path)


def test_a_variant_is_saved_under_its_own_name() -> None:
    assert storage.header_of(catalogue.make("mgd-linear", 3))["ranker"] == "mgd-linear"
    assert storage.header_of(catalogue.make("dbgd-linear", 3))["ranker"] == "dbgd-linear"
