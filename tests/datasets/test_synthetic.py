"""Generated data: shapes, shares, determinism, and the truth of the linear kind."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from perturank.datasets import Fold, content, load
from perturank.datasets.dataset import fingerprint
from perturank.datasets.linear_truth import DELTA_MIN, NORM, linear
from perturank.datasets.synthetic import HEAD, N_HELD_OUT, QUERIES_AT_ONCE, feature_law, mslr_like, stream
from perturank.errors import BadInput

DIGESTS = """
import hashlib
from perturank.datasets import load
for name in ("synthetic", "synthetic-linear", "synthetic-stream"):
    splits = load(name, n_queries=12, seed=3).splits.values()
    print(hashlib.sha256(b"".join(s.features.tobytes() + s.labels.tobytes() for s in splits)).hexdigest())
"""


@pytest.fixture(scope="module")
def fold() -> Fold:
    """Return data of the default size."""
    return mslr_like(300, 0)


def digest(fold: Fold) -> str:
    """Return a hash of all numbers of a fold."""
    content = b"".join(split.features.tobytes() + split.labels.tobytes() for split in fold.splits.values())
    return hashlib.sha256(content).hexdigest()


def test_it_has_the_shape_of_mslr(fold: Fold) -> None:
    train = fold.train
    assert (fold.n_features, fold.n_grades, train.n_queries) == (136, 5, 300)
    assert (fold.validation.n_queries, fold.test.n_queries) == (100, 100)
    assert 40 <= train.lengths.min() <= train.lengths.max() <= 200
    assert train.lengths.mean() == pytest.approx(120, abs=6)
    assert (train.features.min(), train.features.max()) == (0, 1)


def test_its_grades_have_the_shares_of_mslr(fold: Fold) -> None:
    labels = np.concatenate([split.labels for split in fold.splits.values()])
    shares = np.bincount(labels, minlength=5) / len(labels)
    np.testing.assert_allclose(shares, [0.52, 0.32, 0.13, 0.0225, 0.0075], atol=0.015)


def test_some_queries_have_nothing_relevant(fold: Fold) -> None:
    best = np.maximum.reduceat(fold.train.labels, fold.train.offsets[:-1])
    assert 0 < np.mean(best == 0) < 0.1


def test_its_raw_features_have_very_different_scales() -> None:
    raw = mslr_like(40, 0, normalise=False).train.features
    largest = np.abs(raw).max(axis=0)
    assert 1e6 < largest.max() <= 1e8
    assert largest.min() <= 1
    assert sum(np.isin(column, (0, 1)).all() for column in raw.T) >= 5
    assert sum((column == np.floor(column)).all() for column in raw.T) >= 15


def test_interactions_tell_more_than_the_features_alone() -> None:
    """A least-squares fit gains from products of qualities: there is something for a network to find."""
    data, law = mslr_like(60, 0), feature_law()
    smooth = [(law.weights.argmax(axis=0) == k) & np.isin(law.kind, (3, 4, 5)) for k in range(len(law.weights))]
    fits = []
    for squared in (False, True):
        inputs = [_inputs(split.features, smooth, squared) for split in (data.train, data.test)]
        weights = np.linalg.lstsq(inputs[0], data.train.labels.astype(float), rcond=None)[0]
        fits.append(np.corrcoef(inputs[1] @ weights, data.test.labels)[0, 1])
    assert fits[1] > fits[0] + 0.05


def _inputs(features: np.ndarray, groups: list[np.ndarray], squared: bool) -> np.ndarray:
    seen = [features[:, columns].mean(axis=1, dtype=float) - 0.5 for columns in groups]
    products = [a * b for i, a in enumerate(seen) for b in seen[: i + 1]] if squared else []
    return np.column_stack([np.ones(len(features)), *seen, *products])


def test_a_seed_gives_the_same_bytes_in_every_process() -> None:
    names = ["synthetic", "synthetic-linear", "synthetic-stream"]
    here = [digest(load(name, n_queries=12, seed=3)) for name in names]
    run = subprocess.run([sys.executable, "-c", DIGESTS], capture_output=True, text=True, check=True)
    assert run.stdout.split() == here
    assert here[0] != digest(load("synthetic", n_queries=12, seed=4))


def test_splits_do_not_share_queries() -> None:
    small = mslr_like(12, 0)
    assert not np.array_equal(small.validation.features[:40], small.test.features[:40])


def test_the_size_may_be_written_in_the_name() -> None:
    assert digest(load("synthetic:20")) == digest(load("synthetic", n_queries=20))
    assert load("synthetic-linear:20").train.n_queries == 20


def test_wrong_sizes_and_folds_are_refused() -> None:
    for wrong in ("synthetic:many", "synthetic:0", "synthetic:-3"):
        with pytest.raises(BadInput):
            load(wrong)
    with pytest.raises(BadInput, match="given twice"):
        load("synthetic:10", n_queries=10)
    with pytest.raises(BadInput, match="n_queries is 0"):
        load("synthetic", n_queries=0)
    with pytest.raises(BadInput, match="synthetic has no fold 2"):
        load("synthetic", 2)
    with pytest.raises(BadInput, match="136 features, not 10"):
        load("synthetic", n_features=10)
    with pytest.raises(BadInput, match="seed is -1"):
        load("synthetic", seed=-1)


def test_a_stream_has_its_head_and_then_as_many_new_queries_as_asked_for() -> None:
    made = load("synthetic-stream:30")
    assert made.train.head == HEAD
    assert made.train.n_queries == HEAD.n + 30
    assert (made.validation.n_queries, made.test.n_queries) == (N_HELD_OUT, N_HELD_OUT)
    assert made.validation.head is made.test.head is None
    for split in made.splits.values():
        assert 20 <= split.lengths.min() <= split.lengths.max() <= 60
        assert len(set(split.qids)) == split.n_queries
    first_rows = made.train.features[made.train.offsets[:-1]]
    assert len(np.unique(first_rows, axis=0)) == made.train.n_queries


def test_a_stream_has_the_law_of_synthetic(fold: Fold) -> None:
    made = stream(500)
    assert (made.n_features, made.n_grades) == (fold.n_features, fold.n_grades)
    shares = np.bincount(made.train.labels, minlength=5) / made.train.n_documents
    np.testing.assert_allclose(shares, [0.52, 0.32, 0.13, 0.0225, 0.0075], atol=0.015)


def test_a_longer_stream_begins_with_the_shorter_one() -> None:
    short, long = (stream(n, 2).train for n in (QUERIES_AT_ONCE - 1, QUERIES_AT_ONCE + 1))
    np.testing.assert_array_equal(short.features, long.between(0, short.n_queries).features)
    np.testing.assert_array_equal(short.qids, long.qids[:-2])


def test_the_head_is_part_of_what_a_stream_is() -> None:
    train = stream(20).train
    assert content("synthetic-stream:20") == fingerprint(train)
    assert fingerprint(replace(train, head=None)) != fingerprint(train)
    assert fingerprint(replace(train, head=replace(HEAD, p=0.5))) != fingerprint(train)


def test_the_linear_truth_lies_in_the_unit_ball_and_grades_follow_it() -> None:
    made = load("synthetic-linear", n_queries=40, n_features=6)
    assert made.theta_star is not None
    assert np.linalg.norm(made.theta_star) == pytest.approx(NORM)
    assert (made.n_features, made.n_grades) == (6, 5)
    for split in made.splits.values():
        assert np.linalg.norm(split.features.astype(float), axis=1).max() <= 1
        for i in range(split.n_queries):
            features, labels = split.query(i)
            order = np.argsort(features.astype(float) @ made.theta_star)
            assert (np.diff(labels[order].astype(int)) >= 0).all()
    assert set(np.unique(made.train.labels)) == set(range(5))


@pytest.mark.parametrize("delta_min", [DELTA_MIN, 0.1])
def test_any_two_documents_of_a_query_differ_by_the_promised_gap(delta_min: float) -> None:
    made = linear(30, 1, delta_min=delta_min)
    assert made.theta_star is not None
    smallest = 1.0
    for i in range(made.train.n_queries):
        scores = np.sort(made.train.query(i)[0].astype(float) @ made.theta_star)
        smallest = min(smallest, float(np.min(1 / (1 + np.exp(-np.diff(scores))) - 0.5)))
    assert delta_min <= smallest < 1.5 * delta_min


def test_an_impossible_gap_or_dimension_is_refused() -> None:
    with pytest.raises(BadInput, match=r"delta_min is 0.4"):
        linear(10, delta_min=0.4)
    with pytest.raises(BadInput, match="d is 1"):
        load("synthetic-linear", n_features=1)
