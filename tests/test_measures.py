from __future__ import annotations

import ir_measures
import numpy as np
import pytest

from perturank import metrics
from perturank.errors import BadInput
from perturank.measures import Measure

NAMES = ["nDCG", "nDCG@10", "nDCG@3", "RR", "RR@3", "AP", "AP@5", "AP(rel=2)", "P@5", "P(rel=2)@3", "R@5", "Success@1"]


def made_up() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores without ties, grades and sizes of thirty queries; some have no relevant document."""
    rng = np.random.default_rng(3)
    group = rng.integers(1, 25, 30)
    labels = np.maximum(rng.integers(-2, 4, group.sum()), 0)
    labels[: group[0]] = 0
    return rng.permutation(group.sum()).astype(float), labels, group


@pytest.mark.parametrize("name", NAMES)
def test_a_measure_is_that_of_ir_measures(name: str) -> None:
    scores, labels, group = made_up()
    qids = np.repeat(np.arange(len(group)), group)
    rows = list(zip(map(str, qids), map(str, range(len(labels))), strict=True))
    qrels = [ir_measures.Qrel(q, d, int(grade)) for (q, d), grade in zip(rows, labels, strict=True)]
    run = [ir_measures.ScoredDoc(q, d, float(score)) for (q, d), score in zip(rows, scores, strict=True)]
    asked = ir_measures.parse_measure(name)
    theirs = ir_measures.calc_aggregate([asked], qrels, run)[asked]
    assert Measure.named(name).mean(scores, labels, group) == pytest.approx(theirs, abs=1e-6)


def test_the_exponential_gain_is_that_of_the_experiments() -> None:
    scores, labels, group = made_up()
    offsets = np.concatenate([[0], np.cumsum(group)])
    ours = metrics.mean_ndcg(scores, labels, offsets, k=10, empty="zero")
    assert Measure.named("nDCG(dcg='exp-log2')@10").mean(scores, labels, group) == pytest.approx(ours)


@pytest.mark.parametrize(
    "name, says",
    [
        ("NDCG@10", "did you mean 'nDCG'"),
        ("nDCG@0", "no name of a measure"),
        ("P", "P needs a cutoff"),
        ("nDCG(dcg='ln')@10", "options that are not known"),
        ("AP(rel)", "is no option"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        Measure.named(name)
