"""Data sets from arrays, and their checks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import data as oracle
from scipy.sparse import csr_matrix

from perturank.datasets import Dataset, Fold
from perturank.errors import BadInput

X = [[1.0, 5.0], [2.0, 5.0], [4.0, 5.0], [0.0, 6.0]]
Y = [0, 1, 2, 0]


def test_rows_of_a_query_are_joined_in_order_of_first_sight() -> None:
    data = Dataset.from_arrays(
        [[1], [2], [3], [4], [5]], [0, 1, 2, 3, 4], qid=["b", "a", "b", "c", "a"], normalise=False
    )
    assert data.qids.tolist() == ["b", "a", "c"]
    assert data.offsets.tolist() == [0, 2, 4, 5]
    assert data.features[:, 0].tolist() == [1, 3, 2, 5, 4]
    assert data.labels.tolist() == [0, 2, 1, 4, 3]


def test_group_sizes_cut_the_rows_where_they_stand() -> None:
    data = Dataset.from_arrays(X, Y, group=[3, 1])
    assert data.lengths.tolist() == [3, 1]
    assert (data.n_queries, data.n_documents, data.n_features, data.n_grades) == (2, 4, 2, 3)
    assert data.features.tolist() == [[0, 0], [np.float32(1 / 3), 0], [1, 0], [0, 0]]
    assert data.features.dtype == np.float32


def test_a_data_set_of_zeros_still_has_two_grades() -> None:
    assert Dataset.from_arrays([[1.0]], [0], group=[1]).n_grades == 2


def test_labels_that_do_not_fit_a_byte_are_kept() -> None:
    assert Dataset.from_arrays([[1.0]], [1000], group=[1]).labels.tolist() == [1000]


def test_a_sparse_matrix_is_accepted() -> None:
    assert Dataset.from_arrays(csr_matrix(X), Y, group=[4], normalise=False).features.tolist() == X


def test_queries_are_taken_and_cut_out_by_number() -> None:
    data = Dataset.from_arrays(X, Y, qid=[1, 1, 2, 3], normalise=False)
    assert data.take([2, 0]).qids.tolist() == ["3", "1"]
    assert data.take([2, 0]).features.tolist() == [X[3], X[0], X[1]]
    assert data.between(1, 3).features.tolist() == X[2:]
    assert data.between(1, 3).offsets.tolist() == [0, 1, 2]
    assert data.query(1)[1].tolist() == [2]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_min_max_equals_the_plain_one_for_magnitudes_up_to_1e8(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    number = st.floats(-1e8, 1e8, width=64)
    rows = data.draw(st.lists(st.lists(number, min_size=2, max_size=2), min_size=sum(sizes), max_size=sum(sizes)))
    fast = Dataset.from_arrays(rows, [0] * len(rows), group=sizes)
    for i in range(fast.n_queries):
        a, b = fast.offsets[i : i + 2]
        np.testing.assert_allclose(fast.features[a:b], oracle.min_max(rows[a:b]), rtol=1e-6, atol=1e-12)


def test_min_max_tells_neighbours_of_1e8_apart() -> None:
    data = Dataset.from_arrays([[1e8], [1e8 + 1], [1e8 + 2]], [0, 0, 0], group=[3])
    assert data.features[:, 0].tolist() == [0.0, 0.5, 1.0]


def test_min_max_does_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 3))
    whole = Dataset.from_arrays(rows, np.zeros(60), group=[7, 20, 1, 12, 20])
    monkeypatch.setattr("perturank.datasets.grouping.BLOCK_ROWS", 10)
    assert np.array_equal(Dataset.from_arrays(rows, np.zeros(60), group=[7, 20, 1, 12, 20]).features, whole.features)


NAN = float("nan")
BAD = {
    "X[1, 0] is nan": ([[1.0], [NAN]], [0, 0], {"group": [2]}),
    "X[0, 1] is inf": ([[1.0, float("inf")]], [0], {"group": [1]}),
    "X[0, 0] is 1e+39": ([[1e39]], [0], {"group": [1]}),
    "X is not numeric": ([["a"]], [0], {"group": [1]}),
    "X is not numeric in rows of equal length": ([[1.0], [1.0, 2.0]], [0, 0], {"group": [2]}),
    "X has 1 axes": ([1.0, 2.0], [0, 0], {"group": [2]}),
    "X is empty": (np.zeros((0, 3)), [], {"group": []}),
    "y[1] is 0.5": ([[1.0], [2.0]], [0, 0.5], {"group": [2]}),
    "y[0] is -1.0": ([[1.0], [2.0]], [-1, 0], {"group": [2]}),
    "y[0] is nan": ([[1.0]], [NAN], {"group": [1]}),
    "y is not numeric": ([[1.0]], ["good"], {"group": [1]}),
    "y has 1 labels for 2 rows": ([[1.0], [2.0]], [0], {"group": [2]}),
    "give either qid (one per row) or group": ([[1.0]], [0], {}),
    "rows belong to queries": ([[1.0]], [0], {"qid": [1], "group": [1]}),
    "qid has shape (1,) for 2 rows": ([[1.0], [2.0]], [0, 0], {"qid": [1]}),
    "qid[1] is missing": ([[1.0], [2.0]], [0, 0], {"qid": ["a", None]}),
    "qid[0] is missing": ([[1.0], [2.0]], [0, 0], {"qid": [NAN, 1.0]}),
    "group[1] is 0": ([[1.0], [2.0]], [0, 0], {"group": [2, 0]}),
    "group[0] is 1.5": ([[1.0], [2.0]], [0, 0], {"group": [1.5, 0.5]}),
    "group adds up to 3 rows but X has 2": ([[1.0], [2.0]], [0, 0], {"group": [3]}),
}


@pytest.mark.parametrize("says", BAD)
def test_bad_arrays_are_refused_in_one_line_that_says_where(says: str) -> None:
    rows, labels, queries = BAD[says]
    with pytest.raises(BadInput, match=re.escape(says)) as error:
        Dataset.from_arrays(rows, labels, **queries)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    assert "; " in str(error.value)


def test_a_fold_refuses_splits_with_different_features() -> None:
    two = Dataset.from_arrays(X, Y, group=[4])
    one = Dataset.from_arrays([[1.0]], [0], group=[1])
    with pytest.raises(BadInput, match="train has 2 features but test has 1"):
        Fold("mine", 1, 1, two, two, one)


def test_a_fold_refuses_a_number_it_does_not_have() -> None:
    two = Dataset.from_arrays(X, Y, group=[4])
    with pytest.raises(BadInput, match="mine has no fold 3; it has folds 1 to 2"):
        Fold("mine", 3, 2, two, two, two)


def test_a_fold_describes_its_splits_in_plain_values() -> None:
    two = Dataset.from_arrays(X, Y, group=[3, 1])
    train, _, test = Fold("mine", 1, 1, two, two, two, collection_grades=5).describe()
    assert (train["split"], test["split"]) == ("train", "test")
    assert (train["queries"], train["documents"], train["queries without relevant"]) == (2, 4, 1)
    assert (train["share of grade 0"], train["share of grade 4"]) == (0.5, 0.0)
    assert all(type(value) in (str, int, float) for value in train.values())
