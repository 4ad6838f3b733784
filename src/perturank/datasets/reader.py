"""Files turned into folds, by way of the cache."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from perturank.datasets.cache import cached
from perturank.datasets.collections import by_folder_name
from perturank.datasets.dataset import Dataset
from perturank.datasets.fold import Fold, no_such_fold
from perturank.datasets.folders import Layout, layout
from perturank.datasets.svmlight import Text, read
from perturank.errors import BadInput

VALIDATION_SHARE = 0.1  # of the training queries, the last ones, where a collection brings no validation
SPLIT_SHARES = (0.6, 0.2)  # of one file's queries, for training and validation; the rest is for the test


def from_folder(folder: Path, fold: int, n_features: int | None, normalise: bool) -> Fold:
    """Return a fold of a folder whose layout is known."""
    found = layout(folder)
    if fold not in found.folds:
        raise _absent(folder, fold, found)
    collection = found.collection
    files = found.folds[fold]
    width = n_features or (collection.n_features if collection else None)
    name = folder.resolve().name
    texts = _texts([*files.train, *files.validation, *files.test], width, normalise)
    train, test = _joined(files.train, texts, name), _joined(files.test, texts, name)
    if files.validation:
        validation = _joined(files.validation, texts, name)
    else:
        train, validation = _held_out(train, files.train[0])
    grades = collection.n_grades if collection else None
    return Fold(name, fold, found.n_folds, train, validation, test, grades)


def from_file(path: Path, fold: int, seed: int, n_features: int | None, normalise: bool) -> Fold:
    """Return one file's queries, shuffled by the seed and split 60 / 20 / 20."""
    if fold != 1:
        raise no_such_fold(str(path), fold, 1)
    whole = _texts([path], n_features, normalise)[path].dataset
    if whole.n_queries < 3:
        raise BadInput(f"{path} has {whole.n_queries} queries", "at least 3 are needed for three splits")
    order = np.random.default_rng(seed).permutation(whole.n_queries)
    first, second = (max(1, round(share * whole.n_queries)) for share in SPLIT_SHARES)
    first = min(first, whole.n_queries - 2)
    parts = np.split(order, [first, first + second])
    # Within a split the file's order is kept: the shuffle only says who belongs where.
    train, validation, test = (whole.take(np.sort(part)) for part in parts)
    collection = by_folder_name(path.parent)
    grades = collection.n_grades if collection and whole.n_grades <= collection.n_grades else None
    return Fold(path.name, 1, 1, train, validation, test, grades)


def _joined(paths: tuple[Path, ...], texts: dict[Path, Text], name: str) -> Dataset:
    parts = [texts[path].dataset for path in paths]
    return parts[0] if len(parts) == 1 else Dataset.joined(parts, name)  # one part stays a memory map


def _texts(paths: Iterable[Path], n_features: int | None, normalise: bool) -> dict[Path, Text]:
    texts = {path: _text(path, n_features, False, normalise) for path in paths}
    if any(text.zero_based for text in texts.values()):
        # One file that mentions feature 0 tells how all of them are numbered.
        texts = {path: _text(path, n_features, True, normalise) for path in texts}
    (one, first), *others = texts.items()
    for path, text in others:
        counts = first.dataset.n_features, text.dataset.n_features
        if counts[0] != counts[1]:
            raise BadInput(
                f"{one} has {counts[0]} features but {path} has {counts[1]}",
                f"if the missing ones are 0, pass n_features={max(counts)}",
            )
    return texts


def _text(path: Path, n_features: int | None, zero_based: bool, normalise: bool) -> Text:
    options = {"n_features": n_features, "zero_based": zero_based, "normalise": normalise}
    parse = partial(read, path, n_features=n_features, zero_based=zero_based, normalise=normalise)
    return cached(path, options, parse)


def _held_out(train: Dataset, path: Path) -> tuple[Dataset, Dataset]:
    if train.n_queries < 2:
        raise BadInput(f"{path} has one query and there is no validation file", "add a validation file")
    kept = train.n_queries - max(1, round(VALIDATION_SHARE * train.n_queries))
    return train.between(0, kept), train.between(kept, train.n_queries)


def _absent(folder: Path, fold: int, found: Layout) -> BadInput:
    if len(found.folds) == found.n_folds:
        return no_such_fold(str(folder), fold, found.n_folds)
    return BadInput(f"{folder} has no fold {fold}", f"it has {', '.join(map(str, found.folds))}")
