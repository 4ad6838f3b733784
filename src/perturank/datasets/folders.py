"""Folders and files of ranking data: which files make up which fold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perturank.datasets.collections import YAHOO, Collection, by_dimension, by_folder_name
from perturank.datasets.svmlight import first_index
from perturank.errors import BadInput

SPLITS = {
    "train": ("train", "training"),
    "validation": ("vali", "valid", "validation", "val", "dev"),
    "test": ("test",),
}
# The first one present is taken; plain text before its zipped copy.
ENDINGS = (".txt", ".dat", ".svm", ".svmlight", "", ".txt.gz", ".dat.gz", ".svm.gz", ".svmlight.gz", ".gz")

KNOWN_LAYOUTS = (
    "known are Fold1/{train,vali,test}.txt, S1.txt to S5.txt, set1.{train,valid,test}.txt, "
    "{full,sample}/{train,test}.txt and {train,vali,test}.txt, each also as .gz"
)


@dataclass(frozen=True)
class Files:
    """The files of one fold; without validation files, a share of the training queries is taken."""

    train: tuple[Path, ...]
    validation: tuple[Path, ...]
    test: tuple[Path, ...]


@dataclass(frozen=True)
class Layout:
    """A recognised folder: the files of every fold, by number, and the collection if it is known."""

    folds: dict[int, Files]
    collection: Collection | None

    @property
    def n_folds(self) -> int:
        """The highest fold number."""
        return max(self.folds)


def layout(folder: Path) -> Layout:
    """Return what a folder holds, recognised by its files and its name."""
    ways = (_in_folds, _in_parts, _in_sets, _in_subfolder, _in_splits)
    try:
        found = next((seen for way in ways if (seen := way(folder)) is not None), None)
    except OSError as error:
        raise BadInput(f"cannot read {folder}: {error.strerror}", "check its permissions") from None
    if found is None:
        raise BadInput(f"{folder} has no layout that is known", KNOWN_LAYOUTS)
    return found


def _in_folds(folder: Path) -> Layout | None:
    numbers = {int(m[1]): place for place in _subfolders(folder) if (m := re.fullmatch(r"fold(\d+)", place.name, re.I))}
    folds = {number: files for number, place in sorted(numbers.items()) if (files := _splits(place)) is not None}
    return Layout(folds, _named_or_measured(folder, folds)) if folds else None


def _in_parts(folder: Path) -> Layout | None:
    """S1 to S5 rotate: fold 1 trains on S1 S2 S3, validates on S4, tests on S5; fold 2 begins at S2."""
    parts = [path for number in range(1, 6) if (path := _file(folder, f"S{number}")) is not None]
    if len(parts) != 5:
        return None
    turned = {fold: parts[fold - 1 :] + parts[: fold - 1] for fold in range(1, 6)}
    folds = {fold: Files(tuple(p[:3]), (p[3],), (p[4],)) for fold, p in turned.items()}
    return Layout(folds, _named_or_measured(folder, folds))


def _in_sets(folder: Path) -> Layout | None:
    for place in (folder, *_subfolders(folder)):
        folds = {n: files for n in (1, 2) if (files := _splits(place, f"set{n}.")) is not None}
        if folds:
            return Layout(folds, YAHOO)
    return None


def _in_subfolder(folder: Path) -> Layout | None:
    places = [place for place in _subfolders(folder) if place.name.lower() in ("full", "sample")]
    found = {place: files for place in places if (files := _splits(place)) is not None}
    if len(found) > 1:
        names = " and ".join(sorted(place.name for place in found))
        raise BadInput(f"{folder} holds {names}", "give the path of one of them")
    folds = dict(enumerate(found.values(), 1))
    return Layout(folds, _named_or_measured(folder, folds)) if folds else None


def _in_splits(folder: Path) -> Layout | None:
    files = _splits(folder)
    # Known by name alone: another collection may well have as many features.
    return Layout({1: files}, by_folder_name(folder)) if files is not None else None


def _splits(folder: Path, prefix: str = "") -> Files | None:
    paths = {
        split: next((p for stem in stems if (p := _file(folder, prefix + stem)) is not None), None)
        for split, stems in SPLITS.items()
    }
    train, validation, test = (paths[split] for split in SPLITS)
    if train is None or test is None:
        return None
    return Files((train,), () if validation is None else (validation,), (test,))


def _named_or_measured(folder: Path, folds: dict[int, Files]) -> Collection | None:
    if not folds:
        return None
    return by_folder_name(folder) or by_dimension(first_index(next(iter(folds.values())).train[0]))


def _file(folder: Path, stem: str) -> Path | None:
    """Return the file of this name with any known ending, whatever its case."""
    present = {path.name.lower(): path for path in folder.iterdir() if path.is_file()}
    return next((present[name] for end in ENDINGS if (name := (stem + end).lower()) in present), None)


def _subfolders(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.iterdir()) if path.is_dir())
