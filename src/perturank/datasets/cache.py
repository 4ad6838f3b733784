"""Parsed files kept as .npy arrays outside the data folder, and opened as memory maps.

An entry is named by the bytes of the text file, the options and the format's version, so it
never goes stale. It is written beside its place and renamed, so it is whole or absent; one that
was damaged later is refused, not repaired in silence.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from perturank.datasets.dataset import Dataset
from perturank.datasets.svmlight import Text
from perturank.errors import BadInput
from perturank.machine import cache_folder

FORMAT = 1
ARRAYS = ("features", "labels", "offsets", "qids")
SMALL = ARRAYS[1:]  # checked byte by byte on opening; the features only by their size


def cached(path: Path, options: Mapping[str, Any], parse: Callable[[], Text]) -> Text:
    """Return the parsed file from the cache; parse and keep it where it is not there yet."""
    entry = cache_folder() / f"{digest(path)}-{_short(json.dumps([FORMAT, dict(options)], sort_keys=True).encode())}"
    if not _exists(entry):
        _keep(entry, parse)
    return _opened(entry, path.name)


def digest(path: Path) -> str:
    """Return a digest of a file's bytes."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from None


def _short(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _exists(entry: Path) -> bool:
    try:
        return entry.stat() is not None
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(error) from None


def _keep(entry: Path, parse: Callable[[], Text]) -> None:
    try:  # the draft comes before the parsing, so that nobody waits a minute for a refusal
        entry.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=entry.parent))
        try:
            _write(draft, parse())
            draft.rename(entry)
        except OSError:
            if not entry.exists():  # else another process was faster, and its entry is as good
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise _unusable(error) from None


def _write(draft: Path, text: Text) -> None:
    for name in ARRAYS:
        np.save(_file(draft, name), getattr(text.dataset, name), allow_pickle=False)
    manifest = {
        "format": FORMAT,
        "zero_based": text.zero_based,
        "bytes": {name: _file(draft, name).stat().st_size for name in ARRAYS},
        "digests": {name: _short(_file(draft, name).read_bytes()) for name in SMALL},
    }
    (draft / "manifest.json").write_text(json.dumps(manifest, indent=1))


def _opened(entry: Path, name: str) -> Text:
    try:
        manifest = json.loads((entry / "manifest.json").read_text())
        whole = all(_file(entry, array).stat().st_size == manifest["bytes"][array] for array in ARRAYS)
        same = whole and all(_short(_file(entry, array).read_bytes()) == manifest["digests"][array] for array in SMALL)
        if not same:
            raise ValueError("an array was changed")
        small = {array: np.load(_file(entry, array), allow_pickle=False) for array in SMALL}
        features = np.load(_file(entry, "features"), mmap_mode="r", allow_pickle=False)
        if features.shape[0] != len(small["labels"]):
            raise ValueError("arrays of different lengths")
        return Text(Dataset(name, features, **small), bool(manifest["zero_based"]))
    except PermissionError as error:
        raise _unusable(error) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(f"the cached copy {entry} is damaged", "delete that folder; it is then made anew") from None


def _file(entry: Path, array: str) -> Path:
    return entry / f"{array}.npy"


def _unusable(error: OSError) -> BadInput:
    return BadInput(
        f"cannot use the cache folder {cache_folder()}: {error.strerror}",
        "set PERTURANK_CACHE to a folder that you can write to",
    )
