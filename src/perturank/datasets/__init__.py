"""Ranking data: public collections from their own files, arrays, and data made from a seed."""

from __future__ import annotations

import os
from pathlib import Path

from perturank.datasets import synthetic
from perturank.datasets.cache import digest
from perturank.datasets.collections import COLLECTIONS
from perturank.datasets.dataset import Dataset, fingerprint
from perturank.datasets.fold import Fold, no_such_fold
from perturank.datasets.folders import layout
from perturank.datasets.reader import from_file, from_folder
from perturank.errors import BadInput, unknown

__all__ = ["Dataset", "Fold", "available", "content", "load", "n_folds"]


def available() -> dict[str, str]:
    """Return the names that are known, each with a line that says what it is."""
    return synthetic.SUMMARIES | {name: collection.summary for name, collection in COLLECTIONS.items()}


def load(
    name_or_path: str | Path,
    fold: int = 1,
    *,
    n_queries: int | None = None,
    seed: int = 0,
    n_features: int | None = None,
    normalise: bool = True,
) -> Fold:
    """Return a fold of generated data (by name) or of a folder or file (by path).

    `n_queries` is the size of generated training data, also written `synthetic:1000`; of a stream it
    counts the new queries, without the head. `seed` draws generated data, and the split of a single
    file. `n_features` says how many features a file has where its lines leave out the last ones.
    `synthetic-linear` is never normalised.

    >>> fold = load("synthetic", n_queries=30)
    >>> fold.n_features, fold.n_grades, fold.train.n_queries
    (136, 5, 30)
    """
    if n_features is not None and n_features < 1:
        raise BadInput(f"n_features is {n_features}", "it must be 1 or more")
    if seed < 0:
        raise BadInput(f"seed is {seed}", "it must be 0 or more")
    generated = _generated(name_or_path)
    if generated is not None:
        name, size = generated
        if fold != 1:
            raise no_such_fold(name, fold, 1)
        return synthetic.generated(name, _size(name, size, n_queries), seed, n_features, normalise)
    path = _existing(name_or_path)
    if n_queries is not None:
        raise BadInput(f"n_queries does not apply to {path}", "it sets the size of generated data only")
    if path.is_dir():
        return from_folder(path, fold, n_features, normalise)
    return from_file(path, fold, seed, n_features, normalise)


def n_folds(name_or_path: str | Path) -> int:
    """Return how many folds there are."""
    if _generated(name_or_path) is not None:
        return 1
    path = _existing(name_or_path)
    return layout(path).n_folds if path.is_dir() else 1


def content(name_or_path: str | Path, fold: int = 1) -> str:
    """Return a digest of what a fold is made of: the bytes of its files, or the generated training data."""
    if _generated(name_or_path) is not None:
        return fingerprint(load(name_or_path, fold).train)
    path = _existing(name_or_path)
    if not path.is_dir():
        return digest(path)
    found = layout(path).folds
    if fold not in found:
        raise no_such_fold(str(path), fold, max(found))
    files = found[fold]
    return "-".join(digest(each)[:8] for each in (*files.train, *files.validation, *files.test))


def _generated(name: str | Path) -> tuple[str, str] | None:
    """Return the generator and the size written after it; None where the name is not a generator's."""
    if isinstance(name, Path):  # Path("synthetic") is a folder of that name
        return None
    kind, _, size = name.partition(":")
    return (kind, size) if kind in synthetic.SUMMARIES else None


def _size(name: str, written: str, given: int | None) -> int:
    if written and given is not None:
        raise BadInput("the number of queries is given twice", "write it in the name or as n_queries")
    if written and not written.isdecimal():
        raise BadInput(f"{written!r} is not a number of queries", "write a name like synthetic:1000")
    size = int(written) if written else synthetic.DEFAULT_SIZES[name] if given is None else given
    if size < 1:
        raise BadInput(f"n_queries is {size}", "it must be 1 or more")
    return size


def _existing(name_or_path: str | Path) -> Path:
    path = Path(name_or_path).expanduser()
    if path.exists():
        return path
    text = str(name_or_path)
    if text in COLLECTIONS:
        raise BadInput(f"{text} is read from its own files", f"give a path; {COLLECTIONS[text].summary}")
    if isinstance(name_or_path, Path) or os.sep in text or path.suffix:
        raise BadInput(f"there is no file or folder {text}", "check the path")
    raise unknown("dataset", text, available())
