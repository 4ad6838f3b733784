"""The real MQ2008, where PERTURANK_TEST_DATA says that it is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from oracles import data as oracle

from perturank.datasets import load, n_folds

FOLDER = Path(os.environ.get("PERTURANK_TEST_DATA", "")) / "mq2008"

pytestmark = pytest.mark.skipif(
    "PERTURANK_TEST_DATA" not in os.environ or not FOLDER.is_dir(),
    reason="set PERTURANK_TEST_DATA to the folder that holds mq2008/",
)


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mq2008")


@pytest.fixture(autouse=True)
def cache_folder(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Parse the five parts once for all tests of this file."""
    monkeypatch.setenv("PERTURANK_CACHE", str(shared_cache))
    return shared_cache


def test_it_has_784_queries_15211_documents_and_46_features() -> None:
    fold = load(FOLDER)
    splits = fold.splits.values()
    assert sum(split.n_queries for split in splits) == 784
    assert sum(split.n_documents for split in splits) == 15_211
    assert (fold.n_features, fold.n_grades, n_folds(FOLDER)) == (46, 3, 5)


def test_its_parts_rotate_so_that_every_query_is_tested_once() -> None:
    folds = [load(FOLDER, fold) for fold in range(1, 6)]
    tested = [qid for fold in folds for qid in fold.test.qids.tolist()]
    assert len(tested) == len(set(tested)) == 784
    for fold, following in zip(folds, folds[1:] + folds[:1], strict=True):
        assert fold.validation.qids.tolist() == _part(fold.fold + 3)
        assert following.validation.qids.tolist() == fold.test.qids.tolist()


def test_its_first_part_equals_the_plain_reading() -> None:
    queries = oracle.by_query(oracle.documents((FOLDER / "S1.txt").read_text()))
    train = load(FOLDER).train
    for i, (qid, rows) in enumerate(queries.items()):
        assert train.qids[i] == qid
        features, labels = train.query(i)
        assert labels.tolist() == [label for label, _, _ in rows]
        np.testing.assert_allclose(features, oracle.min_max(oracle.dense(rows, 46)), rtol=1e-5, atol=1e-7)


def _part(number: int) -> list[str]:
    text = (FOLDER / f"S{(number - 1) % 5 + 1}.txt").read_text()
    return list(oracle.by_query(oracle.documents(text)))
