"""Loading by name and by path: every layout, and every way to get it wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from oracles.data import Write, letor

from perturank.datasets import available, load, n_folds
from perturank.errors import BadInput


def names(fold_split: object) -> list[str]:
    """Return the query ids of a split."""
    return list(fold_split.qids.tolist())  # type: ignore[attr-defined]


@pytest.mark.parametrize("end", [".txt", ".txt.gz"])
@pytest.mark.parametrize("folder", ["MSLR-WEB10K", "my-web30k", "renamed"])
def test_mslr_is_known_by_its_name_or_by_its_136_features(write: Write, folder: str, end: str) -> None:
    for number in (1, 2):
        for at, split in enumerate(("train", "vali", "test")):
            write(f"{folder}/Fold{number}/{split}{end}", letor([100 * number + at], 136))
    path = write(f"{folder}/readme", "x").parent
    fold = load(path, 2)
    assert (fold.n_features, fold.n_grades, fold.fold, fold.n_folds) == (136, 5, 2, 2)
    assert [names(split) for split in fold.splits.values()] == [["200"], ["201"], ["202"]]
    assert n_folds(path) == 2


@pytest.mark.parametrize("place", ["yahoo", "yahoo/ltrc_yahoo", "elsewhere"])
def test_yahoo_set_2_is_fold_2_and_absent_features_are_0(write: Write, place: str) -> None:
    for number in (1, 2):
        for at, split in enumerate(("train", "valid", "test")):
            write(f"{place}/set{number}.{split}.txt", letor([10 * number + at], 3 + at))
    path = write(f"{place}/readme", "x").parent
    if place.endswith("ltrc_yahoo"):
        path = path.parent
    fold = load(path, 2)
    assert (fold.n_features, fold.n_grades, fold.n_folds) == (700, 5, 2)
    assert [names(split) for split in fold.splits.values()] == [["20"], ["21"], ["22"]]
    assert not fold.train.features[:, 3:].any()
    with pytest.raises(BadInput, match="has no fold 3; it has folds 1 to 2"):
        load(path, 3)


def test_istella_without_validation_gives_its_last_tenth_of_training_queries(write: Write) -> None:
    write("istella/full/train.txt", letor(list(range(20)), 220))
    path = write("istella/full/test.txt", letor([99], 220)).parent
    for place in (path, path.parent):
        fold = load(place)
        assert (fold.n_features, fold.n_grades, fold.n_folds) == (220, 5, 1)
        assert names(fold.train) == [str(i) for i in range(18)]
        assert names(fold.validation) == ["18", "19"]
        assert names(fold.test) == ["99"]


def test_istella_s_is_the_folder_sample(write: Write) -> None:
    for at, split in enumerate(("train", "vali", "test")):
        write(f"any/sample/{split}.txt", letor([at], 220))
    fold = load(write("any/readme", "").parent)
    assert (fold.n_features, names(fold.validation)) == (220, ["1"])


def test_full_and_sample_side_by_side_must_be_told_apart(write: Write) -> None:
    for place in ("full", "sample"):
        for split in ("train", "test"):
            path = write(f"istella/{place}/{split}.txt", letor([1, 2], 3))
    with pytest.raises(BadInput, match="holds full and sample; give the path of one of them"):
        load(path.parent.parent)


def test_letor_parts_rotate(write: Write) -> None:
    for number in range(1, 6):
        path = write(f"MQ2008/S{number}.txt", letor([number], 46)).parent
    shown = [["".join(names(split)) for split in load(path, fold).splits.values()] for fold in range(1, 6)]
    assert shown == [["123", "4", "5"], ["234", "5", "1"], ["345", "1", "2"], ["451", "2", "3"], ["512", "3", "4"]]
    fold = load(path)
    assert (fold.n_features, fold.n_grades, n_folds(path)) == (46, 3, 5)


@pytest.mark.parametrize("files", [("train.txt", "vali.txt", "test.txt"), ("Train.dat", "valid.gz", "test.svm")])
def test_any_folder_of_three_splits_is_read(write: Write, files: tuple[str, ...]) -> None:
    for at, file in enumerate(files):
        path = write(f"mine/{file}", letor([at], 3)).parent
    fold = load(path)
    assert (fold.name, fold.n_features, fold.n_grades) == ("mine", 3, 2)
    assert [names(split) for split in fold.splits.values()] == [["0"], ["1"], ["2"]]


def test_different_feature_counts_of_an_unknown_collection_must_be_explained(write: Write) -> None:
    train = write("mine/train.txt", letor([1], 3))
    write("mine/vali.txt", letor([1], 3))
    test = write("mine/test.txt", letor([1], 5))
    says = f"{train} has 3 features but {test} has 5; if the missing ones are 0, pass n_features=5"
    with pytest.raises(BadInput, match=re.escape(says)):
        load(train.parent)
    assert load(train.parent, n_features=5).n_features == 5
    with pytest.raises(BadInput, match="line 1: feature 5 is beyond 4"):
        load(train.parent, n_features=4)


def test_a_feature_or_a_label_beyond_a_known_collection_is_refused(write: Write) -> None:
    for split in ("train", "vali", "test"):
        path = write(f"MQ2007/Fold1/{split}.txt", letor([1], 47)).parent.parent
    with pytest.raises(BadInput, match="feature 47 is beyond 46"):
        load(path)
    for split in ("train", "vali", "test"):
        write(f"MQ2007/Fold1/{split}.txt", "3 qid:1 1:1\n")
    with pytest.raises(BadInput, match="train has label 3; this collection's labels are 0 to 2"):
        load(path)


def test_one_file_with_an_index_0_tells_how_all_splits_are_numbered(write: Write) -> None:
    write("mine/train.txt", "1 qid:1 0:5 2:6\n")
    write("mine/vali.txt", "1 qid:1 1:5 2:6\n")
    path = write("mine/test.txt", "1 qid:1 2:6\n").parent
    fold = load(path, normalise=False)
    assert [split.features.tolist() for split in fold.splits.values()] == [[[5, 0, 6]], [[0, 5, 6]], [[0, 0, 6]]]


def test_a_single_file_is_split_60_20_20_by_the_seed(write: Write) -> None:
    path = write("all.txt", letor(list(range(50)), 3))
    fold = load(path)
    splits = [names(split) for split in fold.splits.values()]
    assert [len(split) for split in splits] == [30, 10, 10]
    assert sorted((qid for split in splits for qid in split), key=int) == [str(i) for i in range(50)]
    assert splits == [names(split) for split in load(path).splits.values()]
    assert splits != [names(split) for split in load(path, seed=1).splits.values()]
    assert [split.n_queries for split in load(write("3.txt", letor([1, 2, 3], 2))).splits.values()] == [1, 1, 1]
    with pytest.raises(BadInput, match="has 2 queries; at least 3 are needed"):
        load(write("2.txt", letor([1, 2], 2)))
    with pytest.raises(BadInput, match="has no fold 2; it has one fold"):
        load(path, 2)


def test_a_fold_that_was_not_unpacked_is_named(write: Write) -> None:
    for number in (1, 3):
        for split in ("train", "vali", "test"):
            path = write(f"mslr/Fold{number}/{split}.txt", letor([1], 2)).parent.parent
    with pytest.raises(BadInput, match="has no fold 2; it has 1, 3"):
        load(path, 2)


def test_a_folder_that_is_not_known_is_told_the_known_layouts(write: Write) -> None:
    with pytest.raises(BadInput, match="has no layout that is known; known are Fold1"):
        load(write("odd/data.csv", "1,2").parent)


@pytest.mark.parametrize("path", ["data/absent", "absent.txt", Path("synthetic")])
def test_a_path_that_does_not_exist_is_named(path: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=f"there is no file or folder {path}; check the path"):
        load(path)


def test_unknown_names_get_the_nearest_and_collections_ask_for_their_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="unknown dataset 'sintetic'; did you mean 'synthetic'"):
        load("sintetic")
    with pytest.raises(BadInput, match="mslr is read from its own files; give a path"):
        load("mslr")
    assert set(available()) == {
        "synthetic",
        "synthetic-linear",
        "synthetic-stream",
        "mslr",
        "yahoo",
        "istella",
        "letor",
    }


def test_options_that_do_not_apply_are_refused(write: Write) -> None:
    with pytest.raises(BadInput, match="n_queries does not apply"):
        load(write("a.txt", letor([1, 2, 3], 2)), n_queries=3)
    with pytest.raises(BadInput, match="n_features is 0"):
        load("synthetic", n_features=0)


def test_raw_features_are_kept_where_asked(write: Write) -> None:
    fold = load(write("a.txt", letor([1, 2, 3], 2)), normalise=False)
    assert np.max(fold.train.features) > 1
